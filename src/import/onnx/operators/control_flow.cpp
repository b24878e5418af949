// SPDX-License-Identifier: MIT
// Subgraphs become closed bodies: captured values are operands after the node's own.
#include <algorithm>

#include "import/onnx/known_values.h"
#include "import/onnx/operators/operators.h"
#include "import/onnx/random_numbers.h"

namespace lathe::onnx {
namespace {

using Captures = std::vector<NodeImport::Capture>;

void append(std::vector<Value*>& operands, const Captures& captures) {
  for (const NodeImport::Capture& capture : captures) operands.push_back(capture.value);
}

void set_outputs(NodeImport& c, Instruction* instruction) {
  const int results = static_cast<int>(instruction->results().size());
  c.check(c.outputs() <= results, "the node has {} outputs, the body has {}", c.outputs(), results);
  for (int i = 0; i < c.outputs(); ++i) c.out(i, instruction->result(i));
}

int count_of(const std::vector<ValueInfo>& list) { return static_cast<int>(list.size()); }

std::string_view name_of(ValueType::Kind kind) {
  switch (kind) {
    case ValueType::Kind::tensor:
      return "a tensor";
    case ValueType::Kind::sequence:
      return "a sequence";
    case ValueType::Kind::optional:
      return "an optional";
    case ValueType::Kind::map:
      return "a map";
    default:
      return "a value of unknown type";
  }
}

// Requires that both branches declare results of one kind. A value is also a non-empty optional.
void check_kinds(NodeImport& c, const Graph& yes, const Graph& no) {
  using Kind = ValueType::Kind;
  for (size_t i = 0; i < std::min(yes.outputs.size(), no.outputs.size()); ++i) {
    const Kind a = yes.outputs[i].type.kind;
    const Kind b = no.outputs[i].type.kind;
    const bool is_open =
        a == Kind::unknown || b == Kind::unknown || a == Kind::optional || b == Kind::optional;
    c.check(a == b || is_open,
            "output {} is declared as {} in 'then_branch' and {} in "
            "'else_branch', expected one kind",
            i, name_of(a), name_of(b));
  }
}

}  // namespace

// With a constant condition only the taken branch is imported: types of the other one may be
// invalid, as exporters branch on known shapes.
void import_if(NodeImport& c) {
  const Graph& yes = c.graph("then_branch");
  const Graph& no = c.graph("else_branch");
  check_kinds(c, yes, no);
  const std::optional<Tensor> known = known_tensor(*c.in(0));
  if (known && known->type() == ElementType::boolean && known->count() == 1) {
    const Graph& taken = *known->as<bool>() ? yes : no;
    const std::vector<Value*> results =
        c.inline_graph(c.b.module(), taken, {}, c.captures({&taken}));
    c.check(c.outputs() <= static_cast<int>(results.size()),
            "the node has {} outputs, the branch has {}", c.outputs(), results.size());
    for (int i = 0; i < c.outputs(); ++i) c.out(i, results[static_cast<size_t>(i)]);
    return;
  }
  const Captures captures = c.captures({&yes, &no});
  Module* then_body = c.body(yes, "then", {}, captures);
  Module* else_body = c.body(no, "else", {}, captures);
  std::vector<Value*> operands{c.in(0)};
  append(operands, captures);
  set_outputs(
      c, c.b.add("if", std::move(operands), {}, {then_body, else_body}, count_of(yes.outputs)));
}

// Inputs trip count, condition, carried…; body (iteration, condition, carried…).
void import_loop(NodeImport& c) {
  const Graph& graph = c.graph("body");
  const int carried = std::max(0, count_of(graph.inputs) - 2);
  c.check(count_of(graph.outputs) >= 1 + carried, "the body has {} outputs, expected at least {}",
          graph.outputs.size(), 1 + carried);
  const Captures captures = c.captures({&graph});
  std::vector<Type> types{Type::tensor(ElementType::i64, {}),
                          Type::tensor(ElementType::boolean, {})};
  std::vector<Value*> operands{c.in_or_null(0), c.in_or_null(1)};
  for (int i = 0; i < carried; ++i) {
    operands.push_back(c.in(2 + i));
    types.push_back(operands.back()->type());
  }
  Module* body = c.body(graph, "body", types, captures, 2);
  append(operands, captures);
  set_outputs(c, c.b.add("loop", std::move(operands), {{"carried", int64_t{carried}}}, {body},
                         count_of(graph.outputs) - 1));
}

namespace {

struct ScanShape {
  int carried = 0;
  int scanned = 0;
};

ScanShape scan_shape(NodeImport& c, const Graph& graph) {
  const int64_t scanned = c.integer("num_scan_inputs");
  const int inputs = count_of(graph.inputs);
  c.check(scanned >= 1 && scanned <= inputs && count_of(graph.outputs) >= inputs - scanned,
          "num_scan_inputs is {}, the body has {} inputs and {} outputs", scanned, inputs,
          graph.outputs.size());
  return {inputs - static_cast<int>(scanned), static_cast<int>(scanned)};
}

// The type of one slice along an axis.
Type slice_type(NodeImport& c, const Type& type, int64_t axis) {
  if (!type.is_ranked()) return type;
  const int rank = type.rank();
  c.check(axis >= -rank && axis < rank, "axis {} is out of range for rank {}", axis, rank);
  Type out = type;
  out.dims->erase(out.dims->begin() + (axis < 0 ? axis + rank : axis));
  return out;
}

bool draws_random(const Captures& captures) {
  return !captures.empty() && captures.front().name == kRandomCounter;
}

Integers& entries(Attributes& attributes, std::string_view name) {
  const auto at =
      std::ranges::find(attributes, name, [](const auto& entry) { return entry.first; });
  return std::get<Integers>(at->second);
}

// Makes the random counter, the first captured value, a scanned input: one counter per iteration.
void scan_counters(NodeImport& c, ScanShape shape, std::vector<Value*>& operands,
                   Attributes& attributes) {
  const Value* x = operands[static_cast<size_t>(shape.carried)];
  const Integers& axes = entries(attributes, "input_axes");
  const int64_t given = axes.empty() ? 0 : axes.front();
  c.supported(x->type().is_ranked(), "random numbers in a Scan over '{}' of unknown rank",
              escape(x->name()));
  const int64_t axis = given < 0 ? given + x->type().rank() : given;
  Value* count = c.b.dims({(*x->type().dims)[static_cast<size_t>(axis)]});
  Value* zero = c.b.scalar(ElementType::i64, 0);
  Value* numbers = c.b("range", {zero, c.b.reshape(count, {}), c.b.scalar(ElementType::i64, 1)});
  Value*& counter = operands[static_cast<size_t>(shape.carried + shape.scanned)];
  counter = iteration_counter(c.b, counter, numbers);
  std::get<int64_t>(std::ranges::find(attributes, "scanned", [](const auto& entry) {
                      return entry.first;
                    })->second) = shape.scanned + 1;
  for (const std::string_view name : {"input_axes", "input_directions"}) {
    if (!entries(attributes, name).empty()) entries(attributes, name).push_back(0);
  }
}

Attributes scan_attributes(ScanShape shape) {
  return {{"carried", int64_t{shape.carried}}, {"scanned", int64_t{shape.scanned}}};
}

}  // namespace

void import_scan(NodeImport& c) {
  const Graph& graph = c.graph("body");
  const ScanShape shape = scan_shape(c, graph);
  const Integers axes = c.integers("scan_input_axes", Integers{});
  Attributes attributes = scan_attributes(shape);
  attributes.emplace_back("input_axes", axes);
  attributes.emplace_back("input_directions", c.integers("scan_input_directions", Integers{}));
  attributes.emplace_back("output_axes", c.integers("scan_output_axes", Integers{}));
  attributes.emplace_back("output_directions", c.integers("scan_output_directions", Integers{}));
  c.check(axes.empty() || static_cast<int>(axes.size()) == shape.scanned,
          "scan_input_axes has {} entries, expected {}", axes.size(), shape.scanned);
  std::vector<Value*> operands;
  std::vector<Type> types;
  for (int i = 0; i < shape.carried + shape.scanned; ++i) {
    operands.push_back(c.in(i));
    const int at = i - shape.carried;
    const int64_t axis = axes.empty() || at < 0 ? 0 : axes[static_cast<size_t>(at)];
    const Type& type = c.in(i)->type();
    types.push_back(at < 0 ? type : slice_type(c, type, axis));
  }
  const Captures captures = c.captures({&graph});
  Module* body = c.body(graph, "body", types, captures);
  append(operands, captures);
  if (draws_random(captures)) scan_counters(c, shape, operands, attributes);
  set_outputs(c, c.b.add("scan", std::move(operands), std::move(attributes), {body},
                         count_of(graph.outputs)));
}

// Scan-8 has a leading batch axis: a scan over the batch whose body scans. Inputs lengths?,
// carried…, scanned….
void import_scan_8(NodeImport& c) {
  const Graph& graph = c.graph("body");
  const ScanShape shape = scan_shape(c, graph);
  const Integers directions = c.integers("directions", Integers{});
  c.supported(!c.has(0),
              "input 0 has {} sequence lengths, expected none: shorter sequences are not supported",
              1);
  const Captures captures = c.captures({&graph});
  c.supported(!draws_random(captures), "random numbers in a Scan of opset {}", c.version);
  Module& outer = c.b.program().add_module("batch");
  std::vector<Value*> operands;
  std::vector<Value*> slices;
  std::vector<Type> types;
  for (int i = 0; i < shape.carried + shape.scanned; ++i) {
    operands.push_back(c.in(1 + i));
    const Type slice = slice_type(c, c.in(1 + i)->type(), 0);
    slices.push_back(outer.add_parameter(slice, graph.inputs[static_cast<size_t>(i)].name));
    types.push_back(i < shape.carried ? slice : slice_type(c, slice, 0));
  }
  Captures inner_captures;
  for (const NodeImport::Capture& capture : captures) {
    inner_captures.push_back(
        {capture.name, outer.add_parameter(capture.value->type(), capture.name)});
  }
  Module* body = c.body(graph, "body", types, inner_captures);
  append(slices, inner_captures);
  Attributes attributes = scan_attributes(shape);
  attributes.emplace_back("input_directions", directions);
  Builder builder(outer);
  builder.set_origins(c.b.origins());
  Instruction* inner = builder.add("scan", std::move(slices), std::move(attributes), {body},
                                   count_of(graph.outputs));
  std::vector<Value*> results;
  std::vector<std::string> names;
  for (int i = 0; i < count_of(graph.outputs); ++i) {
    results.push_back(inner->result(i));
    names.emplace_back(graph.outputs[static_cast<size_t>(i)].name);
  }
  outer.set_results(std::move(results), std::move(names));
  append(operands, captures);
  set_outputs(
      c, c.b.add("scan", std::move(operands), scan_attributes({0, shape.carried + shape.scanned}),
                 {&outer}, count_of(graph.outputs)));
}

// A loop over the first sequence that appends the graph's results to one sequence per output.
void import_sequence_map(NodeImport& c) {
  const Graph& graph = c.graph("body");
  const int outputs = count_of(graph.outputs);
  c.check(c.in(0)->type().kind == Type::Kind::sequence, "input 0 is {}, expected a sequence",
          c.in(0)->type().to_string());
  Module& body = c.b.program().add_module("map");
  Value* index = body.add_parameter(Type::tensor(ElementType::i64, {}), "index");
  Value* condition = body.add_parameter(Type::tensor(ElementType::boolean, {}), "condition");
  std::vector<Value*> collected;
  for (const ValueInfo& output : graph.outputs) {
    collected.push_back(body.add_parameter(Type{}, output.name));
  }
  Builder builder(body);
  builder.set_origins(c.b.origins());
  std::vector<Value*> parameters;
  for (int i = 0; i < c.count(); ++i) {
    parameters.push_back(body.add_parameter(c.in(i)->type(), fmt::format("in_{}", i)));
  }
  const Captures captures = c.captures({&graph});
  Captures inner_captures;
  for (const NodeImport::Capture& capture : captures) {
    const bool counts = capture.name == kRandomCounter;
    Value* value = body.add_parameter(capture.value->type(), counts ? "counter" : capture.name);
    inner_captures.push_back(
        {capture.name, counts ? iteration_counter(builder, value, index) : value});
  }
  std::vector<Value*> items;
  for (Value* parameter : parameters) {
    const bool sequence = parameter->type().kind == Type::Kind::sequence;
    items.push_back(sequence ? builder("sequence_at", {parameter, index}) : parameter);
  }
  const std::vector<Value*> mapped = c.inline_graph(body, graph, items, inner_captures);
  std::vector<Value*> results{condition};
  std::vector<std::string> names{"condition"};
  std::vector<Value*> operands{c.b("sequence_length", {c.in(0)}), nullptr};
  for (int i = 0; i < outputs; ++i) {
    const auto at = static_cast<size_t>(i);
    const ElementType element = mapped[at]->type().element;
    collected[at]->set_type(Type::sequence(Type::unranked(element)));
    results.push_back(builder("sequence_insert", {collected[at], mapped[at]}));
    names.emplace_back(graph.outputs[at].name);
    operands.push_back(c.b("sequence_empty", {}, {{"dtype", element}}));
  }
  body.set_results(std::move(results), std::move(names));
  operands.insert(operands.end(), c.inputs().begin(), c.inputs().end());
  append(operands, captures);
  set_outputs(
      c, c.b.add("loop", std::move(operands), {{"carried", int64_t{outputs}}}, {&body}, outputs));
}

}  // namespace lathe::onnx
