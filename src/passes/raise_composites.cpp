// SPDX-License-Identifier: MIT
#include "passes/raise_composites.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "ir/ops.h"
#include "ir/rule.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

bool is_floating_x(const Match& match) { return is_floating(match.type("x").element); }

// The normalised axes of a reduction that keeps them; empty if they are unknown.
std::vector<int64_t> kept_axes(const Instruction& reduction) {
  const auto flag = [&](std::string_view name) {
    const Attribute* found = find_attribute(reduction.attributes(), name);
    return found != nullptr && std::get<bool>(*found);
  };
  if (!flag("keep_dims") || reduction.operands().size() < 2 || reduction.operands()[1] == nullptr) {
    return {};
  }
  std::vector<int64_t> axes;
  for (const double axis : numbers_of(*reduction.operands()[1])) {
    const auto own = static_cast<int64_t>(axis);
    axes.push_back(own < 0 ? own + reduction.operands()[0]->type().rank() : own);
  }
  std::ranges::sort(axes);
  return axes;
}

bool reduces_last_axis(const Instruction& reduction) {
  return kept_axes(reduction) == std::vector<int64_t>{reduction.operands()[0]->type().rank() - 1};
}

// Mean over all axes behind the channels.
Value* raise_pooling(Match& match) {
  const Type& type = match.type("x");
  if (!is_floating(type.element) || type.element == ElementType::f64 || !type.is_ranked() ||
      type.rank() < 3) {
    return nullptr;
  }
  const std::vector<int64_t> axes = kept_axes(match.root());
  if (std::ssize(axes) != type.rank() - 2 || axes.front() != 2) return nullptr;
  return match.b(ops::global_average_pool, {match["x"]});
}

// True if the value has the last axis of x and no other.
bool is_row_of(const Value& value, const Type& x) {
  const Type& type = value.type();
  if (!type.is_ranked() || type.rank() < 1 || type.rank() > x.rank()) return false;
  if (!(type.dims->back() == x.dims->back())) return false;
  return std::all_of(type.dims->begin(), type.dims->end() - 1,
                     [](const Dim& dim) { return dim == Dim(1); });
}

std::optional<double> epsilon_of(const Match& match) {
  const std::vector<double> numbers = numbers_of(*match["epsilon"]);
  return numbers.size() == 1 ? std::optional(numbers[0]) : std::nullopt;
}

bool has_f32_row(const Match& match) {
  const Type& x = match.type("x");
  return x.is_ranked() && x.rank() > 0 && x.element == ElementType::f32 &&
         is_row_of(*match["scale"], x) && reduces_last_axis(match.instruction("variance"));
}

// The RMS normalisation of a centred last axis, plus a bias.
Value* raise_layer_normalization(Match& match) {
  const Instruction& normalized = match.instruction("normalized");
  const auto axis = std::get<int64_t>(*find_attribute(normalized.attributes(), "axis"));
  const Type& x = match.type("x");
  const bool fits = x.is_ranked() && (axis == -1 || axis == x.rank() - 1) &&
                    reduces_last_axis(match.instruction("mean")) && is_row_of(*match["scale"], x) &&
                    is_row_of(*match["bias"], x);
  if (!fits) return nullptr;
  return match.b
      .add(
          ops::layer_normalization, {match["x"], match["scale"], match["bias"]},
          {{"axis", int64_t{-1}}, {"epsilon", *find_attribute(normalized.attributes(), "epsilon")}})
      ->result();
}

Value* raise_rms_normalization(Match& match) {
  const std::optional<double> epsilon = epsilon_of(match);
  if (!has_f32_row(match) || !epsilon) return nullptr;
  return match.b(ops::rms_normalization, {match["x"], match["scale"]},
                 {{"axis", int64_t{-1}}, {"epsilon", *epsilon}});
}

// The powers of x less its maximum, over their sum, along one axis.
Value* raise_softmax(Match& match) {
  const Instruction* exp = match["powers"]->definition();
  if (exp == nullptr || exp->op() != ops::exp) return nullptr;
  const Instruction* difference = exp->operands()[0]->definition();
  if (difference == nullptr || difference->op() != ops::sub) return nullptr;
  Value* x = difference->operands()[0];
  const Instruction* most = difference->operands()[1]->definition();
  const bool fits = most != nullptr && most->op() == ops::reduce_max && most->operands()[0] == x &&
                    is_floating(x->type().element) && x->type().is_ranked();
  if (!fits) return nullptr;
  const std::vector<int64_t> axes = kept_axes(*most);
  if (axes.size() != 1 || axes != kept_axes(match.instruction("sum"))) return nullptr;
  return match.b(ops::softmax, {x}, {{"axis", axes[0]}});
}

// How far constants of a type may lie from the number, relative: half a step of
// 16-bit types, else the six digits that exporters print.
double rounding_of(ElementType type) {
  if (type == ElementType::bf16) return 1.0 / 512;
  return type == ElementType::f16 ? 1.0 / 2048 : 5e-6;
}

// True if the literal has one value, this number as its type or an exporter rounds it.
bool is_near(const Value& value, double number) {
  const double most = rounding_of(value.type().element) * std::abs(number);
  const std::vector<double> numbers = numbers_of(value);
  return !numbers.empty() &&
         std::ranges::all_of(numbers, [&](double own) { return std::abs(own - number) <= most; });
}

void add_gelus(std::vector<Rule>& rules) {
  const Pattern x = value("x"), root = value("root"), factor = value("factor");
  const auto whole_of = [&](const Pattern& doubled) {
    return std::array{(x * doubled) * constant(0.5), x * (doubled * constant(0.5)),
                      (x * constant(0.5)) * doubled};
  };
  for (const bool divides : {true, false}) {
    const double number = divides ? std::numbers::sqrt2 : 1 / std::numbers::sqrt2;
    const Pattern scaled = divides ? x / root : x * root;
    for (const Pattern& whole : whole_of(op(ops::erf, {scaled}) + constant(1))) {
      rules.emplace_back("raise_gelu", whole, op(ops::gelu, {x}), [number](const Match& match) {
        return is_floating_x(match) && is_near(*match["root"], number);
      });
    }
  }
  const std::array cubes{op(ops::pow, {x, constant(3)}), x * (x * x)};
  for (const Pattern& cube : cubes) {
    const Pattern inner = x + cube * factor;
    for (const Pattern& whole : whole_of(op(ops::tanh, {inner * root}) + constant(1))) {
      rules.emplace_back("raise_gelu_tanh", whole, op(ops::gelu, {x}, {{"approximate", "tanh"}}),
                         [](const Match& match) {
                           constexpr double kRoot = 0.7978845608028654;  // sqrt(2 / pi)
                           return is_floating_x(match) && is_near(*match["factor"], 0.044715) &&
                                  is_near(*match["root"], kRoot);
                         });
    }
  }
}

void add_hard_gates(std::vector<Rule>& rules) {
  const Pattern x = value("x");
  const Pattern clipped = op(ops::clip, {x + constant(3), constant(0), constant(6)});
  const Pattern sixth = value("sixth");
  for (const Pattern& whole : {x * (clipped / constant(6)), (x * clipped) / constant(6)}) {
    rules.emplace_back("raise_hard_swish", whole, op(ops::hard_swish, {x}), is_floating_x);
  }
  for (const Pattern& whole : {x * (clipped * sixth), (x * clipped) * sixth}) {
    rules.emplace_back("raise_hard_swish", whole, op(ops::hard_swish, {x}), [](const Match& match) {
      return is_floating_x(match) && is_near(*match["sixth"], 1.0 / 6);
    });
  }
}

void add_normalizations(std::vector<Rule>& rules) {
  const Pattern x = value("x");
  const Pattern centred = x - op(ops::reduce_mean, {x, value("axes")}).named("mean");
  const Pattern scale = value("scale");
  const auto root_of = [](const Pattern& square) {
    return op(ops::sqrt, {op(ops::reduce_mean, {square, value("square_axes")}).named("variance") +
                          value("epsilon")});
  };
  rules.emplace_back(
      "raise_layer_normalization",
      op(ops::rms_normalization, {centred, scale}).named("normalized") + value("bias"),
      raise_layer_normalization);
  for (const Pattern& square : {op(ops::pow, {x, constant(2)}), x * x}) {
    const Pattern root = root_of(square);
    for (const Pattern& normalized :
         {x / root, x * (constant(1) / root), x * op(ops::reciprocal, {root})}) {
      rules.emplace_back("raise_rms_normalization", normalized * scale, raise_rms_normalization);
    }
  }
}

RuleTable make_composite_rules() {
  std::vector<Rule> rules;
  add_gelus(rules);
  add_hard_gates(rules);
  add_normalizations(rules);
  rules.emplace_back(
      "raise_softmax",
      value("powers") / op(ops::reduce_sum, {value("powers"), value("axes")}).named("sum"),
      raise_softmax);
  return RuleTable(std::move(rules));
}

bool raise_all(Program& program) {
  static const RuleTable composites = make_composite_rules();
  // Later: a normalisation of three axes has such means too.
  static const RuleTable poolings(
      {{"raise_global_average_pool", op(ops::reduce_mean, {value("x"), value("axes")}),
        raise_pooling}});
  const bool raised = composites.apply(program);
  return poolings.apply(program) || raised;
}

}  // namespace

const Pass raise_composites{
    .name = "raise_composites",
    .doc = "Recognises activations, normalisations and poolings written out as arithmetic.",
    .run = raise_all,
};

}  // namespace lathe
