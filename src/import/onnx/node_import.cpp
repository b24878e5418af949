// SPDX-License-Identifier: MIT
#include "import/onnx/node_import.h"

#include <algorithm>
#include <array>
#include <map>

#include "import/onnx/random_numbers.h"
#include "ir/infer.h"

namespace lathe::onnx {
namespace {

// Attributes with another name in Lathe.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kRenamed{
    {{"perm", "permutation"}, {"select_last_index", "select_last"}}};

std::string_view renamed(std::string_view name) {
  for (const auto& [from, to] : kRenamed) {
    if (name == from) return to;
  }
  return name;
}

}  // namespace

std::string squash(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '_') out += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return out;
}

const Op* find_op_alike(std::string_view name) {
  static const auto ops = [] {
    std::map<std::string, const Op*, std::less<>> out;
    for (const Op* op : all_ops()) out.emplace(squash(op->name), op);
    return out;
  }();
  const auto at = ops.find(squash(name));
  return at == ops.end() ? nullptr : at->second;
}

NodeImport::NodeImport(Scope& scope, const Node& imported, int opset, const Op* op)
    : node(imported), version(opset), b(scope.module), scope_(scope), op_(op) {
  const std::string op_type = imported.domain.empty()
                                  ? std::string(imported.op_type)
                                  : fmt::format("{}.{}", imported.domain, imported.op_type);
  b.set_origins(
      {Origin{scope.state.model.origin, std::string(imported.name), op_type, imported.index}});
  size_t used = imported.inputs.size();
  while (used > 0 && imported.inputs[used - 1].empty()) --used;
  for (size_t i = 0; i < used; ++i) {
    const std::string_view name = imported.inputs[i];
    operands_.push_back(name.empty() ? nullptr : scope.find(name));
  }
}

Value* NodeImport::in(int i) const {
  check(has(i), "input {} is missing, the node has {}", i, count());
  return operands_[static_cast<size_t>(i)];
}

int NodeImport::rank(int i) const {
  const Type& operand = in(i)->type();
  supported(operand.is_ranked(), "input {} is {}, its rank must be known here", i,
            operand.to_string());
  return operand.rank();
}

std::optional<Tensor> NodeImport::literal(int i) const {
  if (!has(i) || in(i)->definition() == nullptr) return std::nullopt;
  const LiteralRef& literal = in(i)->definition()->literal();
  if (literal == nullptr) return std::nullopt;
  return literal->tensor.aligned();
}

Value* NodeImport::constant(const TensorData& tensor) {
  return b.literal(scope_.state.literal_of(tensor));
}

const Attribute* NodeImport::find(std::string_view name) {
  read_names_.insert(name);
  const Attribute* attribute = node.find(name);
  return attribute == nullptr ? nullptr : resolve(*attribute, scope_.call);
}

template <class T>
const T* NodeImport::get(std::string_view name, Attribute::Kind kind) {
  const Attribute* attribute = find(name);
  if (attribute == nullptr) return nullptr;
  const T* value = attribute->get_if<T>();
  check(value != nullptr, "attribute '{}' is {}, expected {}", escape(name),
        to_string(attribute->kind()), to_string(kind));
  return value;
}

template <class T>
const T& NodeImport::need(const T* value, std::string_view name) const {
  check(value != nullptr, "attribute '{}' is missing", name);
  return *value;
}

bool NodeImport::has_attribute(std::string_view name) { return find(name) != nullptr; }

int64_t NodeImport::integer(std::string_view name, std::optional<int64_t> fallback) {
  const int64_t* value = get<int64_t>(name, Attribute::Kind::integer);
  return need(value == nullptr && fallback ? &*fallback : value, name);
}

double NodeImport::number(std::string_view name, std::optional<double> fallback) {
  const float* value = get<float>(name, Attribute::Kind::number);
  if (value == nullptr && fallback) return *fallback;
  return static_cast<double>(need(value, name));
}

std::string_view NodeImport::text(std::string_view name, std::optional<std::string_view> fallback) {
  const auto* value = get<std::string_view>(name, Attribute::Kind::text);
  return need(value == nullptr && fallback ? &*fallback : value, name);
}

Integers NodeImport::integers(std::string_view name, std::optional<Integers> fallback) {
  const auto* value = get<std::vector<int64_t>>(name, Attribute::Kind::integers);
  return need(value == nullptr && fallback ? &*fallback : value, name);
}

Numbers NodeImport::numbers(std::string_view name, std::optional<Numbers> fallback) {
  const auto* value = get<std::vector<float>>(name, Attribute::Kind::numbers);
  if (value == nullptr && fallback) return *fallback;
  const auto& list = need(value, name);
  return Numbers(list.begin(), list.end());
}

Texts NodeImport::texts(std::string_view name, std::optional<Texts> fallback) {
  const auto* value = get<std::vector<std::string_view>>(name, Attribute::Kind::texts);
  if (value == nullptr && fallback) return *fallback;
  const auto& list = need(value, name);
  return Texts(list.begin(), list.end());
}

const TensorData& NodeImport::tensor(std::string_view name) {
  return *need(get<std::shared_ptr<const TensorData>>(name, Attribute::Kind::tensor), name);
}

const Graph& NodeImport::graph(std::string_view name) {
  return *need(get<std::shared_ptr<Graph>>(name, Attribute::Kind::graph), name);
}

const ValueType& NodeImport::type(std::string_view name) {
  return *need(get<std::shared_ptr<const ValueType>>(name, Attribute::Kind::type), name);
}

namespace {

ElementType element_type_from(int64_t data_type, std::string_view attribute) {
  const std::optional<ElementType> type = element_type_from_onnx(data_type);
  lathe::check(type.has_value(), ErrorKind::invalid_model,
               "attribute '{}' is {}, which is not an element type", escape(attribute), data_type);
  return *type;
}

}  // namespace

ElementType NodeImport::element_type(std::string_view name) {
  return element_type_from(integer(name), name);
}

void NodeImport::ignore(std::initializer_list<std::string_view> names) {
  read_names_.insert(names.begin(), names.end());
}

lathe::Attribute NodeImport::convert(const Attribute& attribute, const AttributeSpec& spec) const {
  if (const auto* value = attribute.get_if<int64_t>()) {
    if (spec.kind == AttributeKind::integer) return *value;
    if (spec.kind == AttributeKind::boolean) return *value > 0;  // -1 is a default of some schemas
    if (spec.kind == AttributeKind::element_type) return element_type_from(*value, attribute.name);
  } else if (const auto* number = attribute.get_if<float>()) {
    if (spec.kind == AttributeKind::number) return static_cast<double>(*number);
  } else if (const auto* words = attribute.get_if<std::string_view>()) {
    if (spec.kind == AttributeKind::text) return std::string(*words);
  } else if (const auto* integers = attribute.get_if<std::vector<int64_t>>()) {
    if (spec.kind == AttributeKind::integers) return Integers(*integers);
  } else if (const auto* numbers = attribute.get_if<std::vector<float>>()) {
    if (spec.kind == AttributeKind::numbers) return Numbers(numbers->begin(), numbers->end());
  } else if (const auto* texts = attribute.get_if<std::vector<std::string_view>>()) {
    if (spec.kind == AttributeKind::texts) return Texts(texts->begin(), texts->end());
  } else if (const auto* type = attribute.get_if<std::shared_ptr<const ValueType>>()) {
    if (spec.kind == AttributeKind::type) return fixed_type(**type, attribute.name);
  }
  fail("attribute '{}' is {}, expected {}", escape(attribute.name), to_string(attribute.kind()),
       lathe::to_string(spec.kind));
}

namespace {

// Element type 0 means that none is chosen.
bool is_undefined(const Attribute& attribute, const AttributeSpec& spec) {
  const int64_t* value = attribute.get_if<int64_t>();
  return spec.kind == AttributeKind::element_type && value != nullptr && *value == 0;
}

}  // namespace

Attributes NodeImport::record_attributes(const Op& op, const Attributes& without) {
  Attributes out;
  for (const AttributeSpec& spec : op.attributes) {
    read_names_.insert(spec.name);  // to suggest it for a misspelt name
    if (find_attribute(without, spec.name) != nullptr) continue;
    for (const Attribute& given : node.attributes) {
      if (squash(renamed(given.name)) != squash(spec.name)) continue;
      const Attribute* attribute = resolve(given, scope_.call);
      if (attribute != nullptr && !is_undefined(*attribute, spec)) {
        out.emplace_back(std::string(spec.name), convert(*attribute, spec));
      }
      read_names_.insert(given.name);
    }
    check(!spec.required || (!out.empty() && out.back().first == spec.name),
          "attribute '{}' is missing", spec.name);
  }
  return out;
}

namespace {

// Attributes of newer schemas, at values that change nothing. Hosts state all defaults of a schema.
struct NewerAttribute {
  std::string_view domain;
  std::string_view op_type;
  std::string_view name;
  int64_t fallback;
};

bool is_newer_default(const Node& node, const Attribute& attribute) {
  constexpr auto kNewer = std::to_array<NewerAttribute>(
      {{"com.microsoft", "CausalConvWithState", "input_channel_offset", 0},
       {"com.microsoft", "CausalConvWithState", "input_channels", 0},
       {"com.microsoft", "CausalConvWithState", "state_channels_last", -1},
       {"com.microsoft", "CausalConvWithState", "state_length", 0},
       {"com.microsoft", "CausalConvWithState", "state_update_capacity", 0},
       {"com.microsoft", "CausalConvWithState", "state_window", 0},
       {"com.microsoft", "MoE", "swiglu_limit_after_activation", 0},
       {"com.microsoft", "QMoE", "swiglu_limit_after_activation", 0},
       {"", "Range", "stash_type", 1}});
  const auto* value = attribute.get_if<int64_t>();
  if (value == nullptr) return false;
  return std::ranges::any_of(kNewer, [&](const NewerAttribute& newer) {
    return newer.domain == node.domain && newer.op_type == node.op_type &&
           newer.name == attribute.name && newer.fallback == *value;
  });
}

}  // namespace

void NodeImport::check_attributes() const {
  for (const Attribute& attribute : node.attributes) {
    // Opsets 1 to 5 list the inputs that a node may overwrite.
    const bool legacy = node.domain.empty() && version < 7 && attribute.name == "consumed_inputs";
    if (legacy || read_names_.contains(attribute.name)) continue;
    if (is_newer_default(node, attribute)) continue;
    const std::vector<std::string_view> known(read_names_.begin(), read_names_.end());
    fail("unknown attribute '{}'{}", escape(attribute.name), did_you_mean(attribute.name, known));
  }
}

void NodeImport::out(int i, Value* value) {
  if (!is_used(i)) return;
  const std::string_view name = node.outputs[static_cast<size_t>(i)];
  scope_.define(name, value);
  if (value->definition() != nullptr && scope_.state.named.insert(value).second) {
    scope_.module.rename(value, name);
  }
}

Instruction* NodeImport::plain(std::string_view op_name, std::vector<Value*> operands,
                               Attributes extra, std::vector<Module*> bodies) {
  const Op& op = get_op(op_name);
  Attributes attributes = record_attributes(op, extra);
  std::move(extra.begin(), extra.end(), std::back_inserter(attributes));
  Instruction* instruction =
      b.add(op_name, std::move(operands), std::move(attributes), std::move(bodies), outputs());
  const int results = static_cast<int>(instruction->results().size());
  for (int i = 0; i < outputs(); ++i) {
    if (!is_used(i)) continue;
    check(i < results, "output {} is used, {} has {} outputs", i, op_name, results);
    out(i, instruction->result(i));
  }
  return instruction;
}

Value* NodeImport::random_counter() { return onnx::random_counter(scope_); }

std::vector<NodeImport::Capture> NodeImport::captures(const std::vector<const Graph*>& graphs) {
  std::vector<Capture> out;
  const bool draws = std::ranges::any_of(
      graphs, [&](const Graph* graph) { return draws_random(scope_.state.model, graph->nodes); });
  if (draws) out.push_back({kRandomCounter, random_counter()});
  for (const std::string_view name : free_names(graphs)) {
    if (scope_.find_literal(name) != nullptr) continue;
    if (Value* value = scope_.find(name)) out.push_back({name, value});
  }
  return out;
}

Module* NodeImport::body(const Graph& graph, std::string_view name, const std::vector<Type>& inputs,
                         const std::vector<Capture>& captures, size_t counters) {
  check(graph.inputs.size() == inputs.size(), "'{}' has {} inputs, expected {}", name,
        graph.inputs.size(), inputs.size());
  Module& module = scope_.state.program.add_module(name);
  std::vector<Value*> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(module.add_parameter(inputs[i], graph.inputs[i].name));
  }
  std::vector<Capture> inner;
  for (size_t i = 0; i < counters; ++i) {
    const auto& extents = graph.inputs[i].type.extents;
    if (!extents || extents->size() != 1) continue;
    Builder builder(module);
    values[i] = builder("unsqueeze", {values[i], builder.integers({0})});
  }
  for (const Capture& capture : captures) {
    const bool counts = capture.name == kRandomCounter;
    Value* parameter =
        module.add_parameter(capture.value->type(), counts ? "counter" : capture.name);
    parameter->set_elements(capture.value->elements());
    if (counts && counters > 0) {
      Builder builder(module);
      parameter = iteration_counter(builder, parameter, module.parameters().front().get());
    }
    inner.push_back({capture.name, parameter});
  }
  std::vector<std::string> names;
  for (const ValueInfo& output : graph.outputs) names.emplace_back(output.name);
  module.set_results(inline_graph(module, graph, values, inner), std::move(names));
  return &module;
}

std::vector<Value*> NodeImport::inline_graph(Module& module, const Graph& graph,
                                             const std::vector<Value*>& inputs,
                                             const std::vector<Capture>& captures) {
  check(graph.inputs.size() == inputs.size(), "subgraph '{}' has {} inputs, expected {}",
        escape(graph.name), graph.inputs.size(), inputs.size());
  Scope inner(scope_.state, module, scope_.imports, scope_.call, &scope_);
  for (const Capture& capture : captures) {
    if (capture.name == kRandomCounter) scope_.state.counters[&module] = capture.value;
    inner.define(capture.name, capture.value);
  }
  for (const TensorData& tensor : graph.initializers) inner.define(tensor);
  for (size_t i = 0; i < inputs.size(); ++i) inner.define(graph.inputs[i].name, inputs[i]);
  import_nodes(inner, graph.nodes);
  std::vector<Value*> results;
  for (const ValueInfo& output : graph.outputs) results.push_back(inner.find(output.name));
  return results;
}

}  // namespace lathe::onnx
