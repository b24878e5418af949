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
  std::vector<Pattern> inners{(x * root) * ((x * factor) * x + constant(1))};
  for (const Pattern& cube : cubes) inners.push_back((x + cube * factor) * root);
  for (const Pattern& inner : inners) {
    for (const Pattern& whole : whole_of(op(ops::tanh, {inner}) + constant(1))) {
      rules.emplace_back("raise_gelu_tanh", whole, op(ops::gelu, {x}, {{"approximate", "tanh"}}),
                         [](const Match& match) {
                           constexpr double kRoot = 0.7978845608028654;  // sqrt(2 / pi)
                           return is_floating_x(match) && is_near(*match["factor"], 0.044715) &&
                                  is_near(*match["root"], kRoot);
                         });
    }
  }
  rules.emplace_back("raise_swish_by_factor", x * op(ops::sigmoid, {x * factor}),
                     [](Match& match) -> Value* {
                       const std::optional<double> alpha = number_of(*match["factor"]);
                       if (!alpha || !is_floating_x(match)) return nullptr;
                       return match.b(ops::swish, {match["x"]}, {{"alpha", *alpha}});
                     });
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

RuleTable make_composite_rules() {
  std::vector<Rule> rules;
  add_gelus(rules);
  add_hard_gates(rules);
  rules.emplace_back(
      "raise_softmax",
      value("powers") / op(ops::reduce_sum, {value("powers"), value("axes")}).named("sum"),
      raise_softmax);
  return RuleTable(std::move(rules));
}

bool raise_all(Program& program) {
  static const RuleTable composites = make_composite_rules();
  // Later than normalisations: those of three axes have such means.
  static const RuleTable poolings(
      {{"raise_global_average_pool", op(ops::reduce_mean, {value("x"), value("axes")}),
        raise_pooling}});
  const bool raised = composites.apply(program);
  return poolings.apply(program) || raised;
}

}  // namespace

const Pass raise_composites{
    .name = "raise_composites",
    .doc = "Recognises activations, softmax and poolings written out as arithmetic.",
    .run = raise_all,
};

}  // namespace lathe
