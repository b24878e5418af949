// SPDX-License-Identifier: MIT
#include "ops/support/recurrent.h"

#include "ir/ops.h"
#include "ops/support/composite.h"

namespace lathe {
namespace {

enum Operand { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

struct Activation {
  std::string_view name;  // ONNX spelling in lower case
  const Op* op;           // null: computed by several ops
  int parameters;         // alpha, beta
  double alpha;
  double beta;
};

constexpr std::array kActivations = {
    Activation{"sigmoid", &ops::sigmoid, 0, 0, 0},
    Activation{"tanh", &ops::tanh, 0, 0, 0},
    Activation{"relu", &ops::relu, 0, 0, 0},
    Activation{"softsign", &ops::softsign, 0, 0, 0},
    Activation{"softplus", &ops::softplus, 0, 0, 0},
    Activation{"leakyrelu", &ops::leaky_relu, 1, 0.01, 0},
    Activation{"thresholdedrelu", &ops::thresholded_relu, 1, 1, 0},
    Activation{"elu", &ops::elu, 1, 1, 0},
    Activation{"hardsigmoid", &ops::hard_sigmoid, 2, 0.2, 0.5},
    Activation{"scaledtanh", nullptr, 2, 1, 1},
    Activation{"affine", nullptr, 2, 1, 0},
};

const Activation& find_activation(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const Activation& activation : kActivations) {
    if (activation.name == name) return activation;
  }
  fail(ErrorKind::unsupported, "unknown activation '{}'", escape(name));
}

template <class T>
const T* attribute(const Expansion& e, std::string_view name) {
  const Attribute* value = find_attribute(e.instruction().attributes(), name);
  return value == nullptr ? nullptr : std::get_if<T>(value);
}

// The i-th activation of a direction. Lists of alpha and beta have entries only for activations
// that use them, in order over all directions.
Activation activation_at(const Expansion& e, const Recurrent& op, size_t direction, size_t i) {
  Texts names = *attribute<Texts>(e, "activations");
  const size_t count = op.activations.size();
  while (names.size() < (direction + 1) * count) {
    names.emplace_back(op.activations[names.size() % count]);
  }
  const size_t index = direction * count + i;
  size_t alphas = 0;
  size_t betas = 0;
  Activation found{};
  for (size_t at = 0; at <= index; ++at) {
    found = find_activation(names[at]);
    const auto take = [&](std::string_view list, size_t& next, double& value) {
      const Numbers* numbers = attribute<Numbers>(e, list);
      if (numbers != nullptr && next < numbers->size()) value = (*numbers)[next];
      ++next;
    };
    if (found.parameters > 0) take("activation_alpha", alphas, found.alpha);
    if (found.parameters > 1) take("activation_beta", betas, found.beta);
  }
  return found;
}

// Slice d of axis 0, without that axis.
Value* entry(Builder& b, Value* x, int64_t d) {
  std::vector<Dim> dims(x->type().dims->begin() + 1, x->type().dims->end());
  return b.reshape(slice_along(b, x, 0, d, d + 1), dims);
}

bool bidirectional(std::string_view direction) { return direction == "bidirectional"; }

// Scan of one direction: final states, then h of every step [time, batch, hidden].
std::vector<Value*> scan_direction(Expansion& e, const Recurrent& op, Value* x, int64_t d,
                                   bool backward) {
  Builder& b = e.b;
  const ElementType type = x->type().element;
  const Dim batch = (*x->type().dims)[1];
  const Dim hidden = e.dim(kR, 2);
  const auto own = [&](int operand) { return entry(b, b.cast(e.operand(operand), type), d); };
  const auto initial = [&](int operand) -> Value* {
    if (!e.has(operand)) return b.expand(b.scalar(type, 0), {batch, hidden});
    Value* given = b.cast(e.operand(operand), type);
    if (e.integer("layout") == 1) given = b.transpose(given, {1, 0, 2});
    return entry(b, given, d);
  };
  Value* bias = e.has(kB) ? own(kB) : nullptr;
  const Dim width = hidden * op.gates;
  Value* input = b(ops::matmul, {x, b.transpose(own(kW), {1, 0})});
  if (bias != nullptr) input = b(ops::add, {input, slice_along(b, bias, 0, 0, width)});

  Module& body = b.program().add_module(fmt::format("{}_step", e.instruction().op().name));
  Builder inner(body);
  inner.set_origins(b.origins());
  std::vector<Value*> operands;
  const auto pass = [&](Value* value, std::string_view name, int dropped = 0) {
    operands.push_back(value);
    Type inside = value->type();
    inside.dims->erase(inside.dims->begin(), inside.dims->begin() + dropped);
    return body.add_parameter(std::move(inside), name);
  };
  RecurrentStep s{inner};
  s.e = &e;
  s.op = &op;
  s.direction = static_cast<int>(d);
  s.hidden = hidden;
  s.state.push_back(pass(initial(kInitialH), "h"));
  if (op.states > 1) s.state.push_back(pass(initial(kInitialC), "c"));
  s.input = pass(input, "x", 1);
  Value* time = nullptr;
  if (e.has(kLengths)) {
    const ElementType counter = e.element(kLengths);
    Value* end = b.reshape(b.cast(b.dims({(*x->type().dims)[0]}), counter), {});
    Value* steps = b(ops::range, {b.scalar(counter, 0), end, b.scalar(counter, 1)});
    steps = b(ops::refine, {steps}, {{"dims", std::vector<Dim>{(*x->type().dims)[0]}}});
    time = pass(steps, "time", 1);
  }
  s.weights = pass(b.transpose(own(kR), {1, 0}), "r");
  if (bias != nullptr) s.bias = pass(slice_along(b, bias, 0, width, width * 2), "bias");
  if (e.has(kPeepholes)) s.peepholes = pass(own(kPeepholes), "p");
  Value* lengths = e.has(kLengths) ? pass(e.operand(kLengths), "lengths") : nullptr;

  std::vector<Value*> results = op.step(s);
  Value* y = results[0];
  if (lengths != nullptr) {
    // Beyond its length a sequence keeps its state and outputs zeros.
    Value* valid = inner.reshape(inner("less", {time, lengths}), {batch, 1});
    for (size_t i = 0; i < results.size(); ++i) {
      results[i] = inner("where", {valid, results[i], s.state[i]});
    }
    y = inner("where", {valid, y, inner.scalar(type, 0)});
  }
  results.push_back(y);
  body.set_results(results, std::vector<std::string>(results.size()));
  const int64_t scanned = time != nullptr ? 2 : 1;
  const Integers directions(static_cast<size_t>(scanned), backward ? 1 : 0);
  Instruction* scan = b.add(ops::scan, operands,
                            {{"carried", op.states},
                             {"scanned", scanned},
                             {"input_directions", directions},
                             {"output_directions", Integers{backward ? 1 : 0}}},
                            {&body}, static_cast<int>(results.size()));
  std::vector<Value*> out;
  for (size_t i = 0; i < results.size(); ++i) out.push_back(scan->result(static_cast<int>(i)));
  return out;
}

}  // namespace

Value* RecurrentStep::one_minus(Value* x) const {
  return b(ops::sub, {b.scalar(x->type().element, 1), x});
}

Value* RecurrentStep::gates(Value* all, int64_t first, int64_t last) const {
  return slice_along(b, all, all->type().rank() - 1, hidden * first, hidden * last);
}

Value* RecurrentStep::recur(Value* h, int64_t first, int64_t last) const {
  Value* product = b(ops::matmul, {h, gates(weights, first, last)});
  return bias == nullptr ? product : add(product, gates(bias, first, last));
}

Value* RecurrentStep::add(Value* x, Value* y) const { return b(ops::add, {x, y}); }
Value* RecurrentStep::mul(Value* x, Value* y) const { return b(ops::mul, {x, y}); }

Value* RecurrentStep::activate(int64_t i, Value* x) const {
  const ElementType type = x->type().element;
  const auto constant = [&](double value) { return b.scalar(type, value); };
  if (const double* clip = attribute<double>(*e, "clip")) {
    x = b(ops::max, {b(ops::min, {x, constant(*clip)}), constant(-*clip)});
  }
  const Activation f =
      activation_at(*e, *op, static_cast<size_t>(direction), static_cast<size_t>(i));
  if (f.name == "affine") return add(mul(x, constant(f.alpha)), constant(f.beta));
  if (f.name == "scaledtanh") {
    return mul(b(ops::tanh, {mul(x, constant(f.beta))}), constant(f.alpha));
  }
  Attributes attributes;
  if (f.parameters > 0) attributes.emplace_back("alpha", f.alpha);
  if (f.parameters > 1) attributes.emplace_back("beta", f.beta);
  return b(*f.op, {x}, attributes);
}

std::vector<OperandSpec> recurrent_operands(int64_t states) {
  std::vector<OperandSpec> list = {{"x", kFloats, Arity::one, 'T'},
                                   {"w", kFloats, Arity::one, 'T'},
                                   {"r", kFloats, Arity::one, 'T'},
                                   {"b", kFloats, Arity::optional, 'T'},
                                   {"sequence_lens", types(ElementType::i32), Arity::optional},
                                   {"initial_h", kFloats, Arity::optional, 'T'}};
  if (states > 1) {
    list.push_back({"initial_c", kFloats, Arity::optional, 'T'});
    list.push_back({"p", kFloats, Arity::optional, 'T'});
  }
  return list;
}

std::vector<AttributeSpec> recurrent_attributes(std::vector<AttributeSpec> extra) {
  std::vector<AttributeSpec> list = {{"direction", "forward"},
                                     {"layout", 0},
                                     {"hidden_size", AttributeKind::integer, false},
                                     {"activations", Texts{}},
                                     {"activation_alpha", Numbers{}},
                                     {"activation_beta", Numbers{}},
                                     {"clip", AttributeKind::number, false}};
  list.insert(list.end(), extra.begin(), extra.end());
  return list;
}

void infer_recurrent(Infer& c, int64_t gates, int64_t states) {
  for (int i = 0; i < 3; ++i)
    c.check(c.rank(i) == 3, "operand {} has rank {}, expected 3", i, c.rank(i));
  const std::string& direction = c.text("direction");
  c.check(direction == "forward" || direction == "reverse" || bidirectional(direction),
          "direction is '{}', expected forward, reverse or bidirectional", escape(direction));
  const int64_t layout = c.integer("layout");
  c.check(layout == 0 || layout == 1, "layout is {}, expected 0 or 1", layout);
  const Dim directions = bidirectional(direction) ? 2 : 1;
  const Dim& hidden = c.dim(kR, 2);
  const Dim& time = c.dim(kX, layout == 1 ? 1 : 0);
  const Dim& batch = c.dim(kX, layout == 1 ? 0 : 1);
  c.require_equal(c.dim(kW, 0), directions, "directions of w");
  c.require_equal(c.dim(kR, 0), directions, "directions of r");
  c.require_equal(c.dim(kW, 1), hidden * gates, "rows of w");
  c.require_equal(c.dim(kR, 1), hidden * gates, "rows of r");
  c.require_equal(c.dim(kW, 2), c.dim(kX, 2), "columns of w and x");
  if (c.has(kB)) c.require_equal(c.dim(kB, 1), hidden * (2 * gates), "elements of b");
  if (c.has(kLengths)) c.require_equal(c.dim(kLengths, 0), batch, "sequence_lens and batch");
  const bool first = layout == 1;
  const std::vector<Dim> state = first ? std::vector<Dim>{batch, directions, hidden}
                                       : std::vector<Dim>{directions, batch, hidden};
  c.result(c.element(kX), first ? std::vector<Dim>{batch, time, directions, hidden}
                                : std::vector<Dim>{time, directions, batch, hidden});
  for (int64_t i = 0; i < states; ++i) c.result(c.element(kX), state);
}

void expand_recurrent(Expansion& e, const Recurrent& op) {
  Builder& b = e.b;
  const bool batch_first = e.integer("layout") == 1;
  Value* x = widen(b, e.operand(kX));
  if (batch_first) x = b.transpose(x, {1, 0, 2});
  const std::string& direction = e.text("direction");
  std::vector<std::vector<Value*>> parts(static_cast<size_t>(op.states) + 1);
  for (int64_t d = 0; d < (bidirectional(direction) ? 2 : 1); ++d) {
    const bool backward = d == 1 || direction == "reverse";
    const std::vector<Value*> results = scan_direction(e, op, x, d, backward);
    for (size_t i = 0; i < results.size(); ++i) {
      const int64_t axis = i + 1 == results.size() ? 1 : 0;
      parts[i].push_back(b(ops::unsqueeze, {results[i], b.integers({axis})}));
    }
  }
  const auto join = [&](const std::vector<Value*>& list, int64_t axis) {
    return list.size() == 1 ? list[0] : b(ops::concat, list, {{"axis", axis}});
  };
  Value* y = join(parts.back(), 1);
  conclude(e, batch_first ? b.transpose(y, {2, 0, 1, 3}) : y);
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    Value* state = join(parts[i], 0);
    conclude(e, batch_first ? b.transpose(state, {1, 0, 2}) : state);
  }
}

}  // namespace lathe
