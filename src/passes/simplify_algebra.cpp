// SPDX-License-Identifier: MIT
// Bit-exact rules, -0 and NaN included. The rule table skips a rule whose replacement has another
// type, for example where x was broadcast.
#include "passes/simplify_algebra.h"

#include <cmath>

#include "ir/ops.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

// True if `wide` represents every value of `narrow` exactly, NaN and infinities included.
bool holds_all_of(ElementType wide, ElementType narrow) {
  using enum ElementType;
  const ElementTypeInfo& w = info(wide);
  const ElementTypeInfo& n = info(narrow);
  switch (n.cls) {
    case ElementClass::floating:
      return (wide == f64 && (narrow == f32 || narrow == f16 || narrow == bf16)) ||
             (wide == f32 && (narrow == f16 || narrow == bf16));
    case ElementClass::signed_int:
      if (is_floating(wide)) return (wide == f64 && n.bits <= 32) || (wide == f32 && n.bits <= 16);
      return w.cls == ElementClass::signed_int && w.bits >= n.bits;
    case ElementClass::unsigned_int:
      if (is_floating(wide)) return (wide == f64 && n.bits <= 32) || (wide == f32 && n.bits <= 16);
      return (w.cls == ElementClass::unsigned_int && w.bits >= n.bits) ||
             (w.cls == ElementClass::signed_int && w.bits > n.bits);
    case ElementClass::boolean:
      return is_integer(wide) || wide == f64 || wide == f32;
    default:
      return false;
  }
}

ElementType element_of(const Match& match, std::string_view name) {
  return match.type(name).element;
}

bool is_integer_x(const Match& match) { return is_integer(element_of(match, "x")); }
bool is_floating_x(const Match& match) { return is_floating(element_of(match, "x")); }

// x / c = x * (1 / c) where both factors are powers of two: either is rounded once.
Value* multiply_by_inverse(Match& match) {
  const std::optional<double> divisor = number_of(*match["divisor"]);
  if (!is_floating_x(match) || !divisor) return nullptr;
  int exponent = 0;
  constexpr int kMostExponent = 14;  // f16 holds the inverse as a normal number
  const double fraction = std::frexp(std::abs(*divisor), &exponent);
  if (fraction != 0.5 || std::abs(exponent) > kMostExponent) return nullptr;
  return match.b(ops::mul, {match["x"], match.b.scalar(element_of(match, "x"), 1 / *divisor)});
}

// True if the gate has alpha 1 and no other user: swiglu computes no other gate.
bool has_plain_gate(const Match& match) {
  const Attribute* alpha = find_attribute(match.instruction("gate").attributes(), "alpha");
  return alpha != nullptr && std::get<double>(*alpha) == 1.0 && match["gate"]->uses().size() == 1;
}

Value* narrow_again(Match& match) {
  const ElementType wide = element_of(match, "wide");
  const ElementType narrow = match.root().result()->type().element;
  const bool is_lossless = element_of(match, "x") == narrow && holds_all_of(wide, narrow);
  return is_lossless ? match["x"] : nullptr;
}

const Integers& permutation_of(const Instruction& instruction) {
  return std::get<Integers>(*find_attribute(instruction.attributes(), "permutation"));
}

// transpose(transpose(x, p), q) = transpose(x, p ∘ q), or x if p ∘ q is the identity.
Value* join_transposes(Match& match) {
  const Integers& inner = permutation_of(match.instruction("inner"));
  const Integers& outer = permutation_of(match.root());
  if (inner.size() != outer.size()) return nullptr;
  Integers joined;
  bool moves = false;
  for (size_t axis = 0; axis < outer.size(); ++axis) {
    joined.push_back(inner[static_cast<size_t>(outer[axis])]);
    moves |= joined.back() != static_cast<int64_t>(axis);
  }
  return moves ? match.b.transpose(match["x"], joined) : match["x"];
}

Value* drop_identity_transpose(Match& match) {
  const Integers& permutation = permutation_of(match.root());
  for (size_t axis = 0; axis < permutation.size(); ++axis) {
    if (permutation[axis] != static_cast<int64_t>(axis)) return nullptr;
  }
  return permutation.empty() ? nullptr : match["x"];
}

// Heads merged, transposed and split again, as torch transposes four axes.
Value* transpose_matrices(Match& match) {
  const Type& x = match.type("x");
  const Type& merged = match.type("merged");
  const Type& y = match.root().result()->type();
  if (!x.is_ranked() || !merged.is_ranked() || !y.is_ranked() || x.rank() != 4 ||
      merged.rank() != 3) {
    return nullptr;
  }
  const std::vector<Dim>& d = *x.dims;
  const bool fits = (*merged.dims)[1] == d[2] && (*merged.dims)[2] == d[3] &&
                    *y.dims == std::vector<Dim>{d[0], d[1], d[3], d[2]};
  return fits ? match.b.transpose(match["x"], {0, 1, 3, 2}) : nullptr;
}

// gather(x, i) of one constant position = squeeze(slice(x, i, i + 1)): a view.
Value* select_position(Match& match) {
  const Instruction& gather = match.root();
  const std::optional<double> index = number_of(*match["index"]);
  const Type& x = match.type("x");
  if (!index || match.type("index").rank() != 0 || !x.is_ranked() ||
      x.element == ElementType::string) {
    return nullptr;
  }
  auto axis = std::get<int64_t>(*find_attribute(gather.attributes(), "axis"));
  if (axis < 0) axis += x.rank();
  const auto begin = static_cast<int64_t>(*index);
  // Slices clamp positions that a gather refuses; squeeze requires that this one did not.
  const Dim& size = (*x.dims)[static_cast<size_t>(axis)];
  const std::optional<int64_t> extent = size.constant();
  if (extent ? begin < -*extent || begin >= *extent : begin < 0) return nullptr;
  Builder& b = match.b;
  const int64_t at = begin < 0 ? begin + *extent : begin;
  Value* part =
      b(ops::slice, {match["x"], b.integers({at}), b.integers({at + 1}), b.integers({axis})});
  return b(ops::squeeze, {part, b.integers({axis})});
}

}  // namespace

const RuleTable& simplify_algebra_rules() {
  static const Pattern x = value("x"), y = value("y");
  static const auto of = [](const Op& unary, const Pattern& operand) {
    return op(unary, {operand});
  };
  static const auto minus = [](const Pattern& operand) { return of(ops::neg, operand); };
  static const RuleTable rules({
      {"identity", op(ops::identity, {x}), x},
      {"multiply_by_one", x * constant(1), x},
      {"divide_by_one", x / constant(1), x},
      // For floats -0 is the neutral element of addition: -0 + 0 is 0.
      {"add_zero", x + constant(0), x, is_integer_x},
      {"add_minus_zero", x + constant(-0.0), x, is_floating_x},
      {"subtract_zero", x - constant(0), x},
      {"negate_twice", op(ops::neg, {op(ops::neg, {x})}), x},
      {"not_twice", op(ops::not_, {op(ops::not_, {x})}), x},
      {"cast_to_own_type", op(ops::cast, {x}), x},
      {"widen_and_narrow", op(ops::cast, {op(ops::cast, {x}).named("wide")}), narrow_again},
      {"divide_by_power_of_two", x / literal("divisor"), multiply_by_inverse},
      {"multiply_by_minus_one", x * constant(-1), minus(x), is_floating_x},
      {"divide_by_minus_one", x / constant(-1), minus(x), is_floating_x},
      {"add_negative", x + minus(y), x - y},
      {"subtract_negative", x - minus(y), x + y},
      {"multiply_negatives", minus(x) * minus(y), x * y},
      {"divide_negatives", minus(x) / minus(y), x / y, is_floating_x},
      // For floats of one value the difference is 0, and its negative -0.
      {"negate_difference", minus(x - y), y - x, is_integer_x},
      {"absolute_negative", of(ops::abs, minus(x)), of(ops::abs, x)},
      {"absolute_twice", of(ops::abs, of(ops::abs, x)), of(ops::abs, x)},
      {"relu_of_absolute", of(ops::relu, of(ops::abs, x)), of(ops::abs, x), is_floating_x},
      {"relu_twice", of(ops::relu, of(ops::relu, x)), of(ops::relu, x)},
      {"sign_twice", of(ops::sign, of(ops::sign, x)), of(ops::sign, x)},
      {"floor_twice", of(ops::floor, of(ops::floor, x)), of(ops::floor, x)},
      {"floor_of_ceil", of(ops::floor, of(ops::ceil, x)), of(ops::ceil, x)},
      {"floor_of_round", of(ops::floor, of(ops::round, x)), of(ops::round, x)},
      {"ceil_twice", of(ops::ceil, of(ops::ceil, x)), of(ops::ceil, x)},
      {"ceil_of_floor", of(ops::ceil, of(ops::floor, x)), of(ops::floor, x)},
      {"ceil_of_round", of(ops::ceil, of(ops::round, x)), of(ops::round, x)},
      {"round_twice", of(ops::round, of(ops::round, x)), of(ops::round, x)},
      {"round_of_floor", of(ops::round, of(ops::floor, x)), of(ops::floor, x)},
      {"round_of_ceil", of(ops::round, of(ops::ceil, x)), of(ops::ceil, x)},
      {"max_of_itself", op(ops::max, {x, x}), x},
      {"min_of_itself", op(ops::min, {x, x}), x},
      {"and_itself", op(ops::and_, {x, x}), x},
      {"or_itself", op(ops::or_, {x, x}), x},
      {"bitwise_and_itself", op(ops::bitwise_and, {x, x}), x},
      {"bitwise_or_itself", op(ops::bitwise_or, {x, x}), x},
      {"bitwise_or_zero", op(ops::bitwise_or, {x, constant(0)}), x},
      {"bitwise_xor_zero", op(ops::bitwise_xor, {x, constant(0)}), x},
      {"bitwise_not_twice", of(ops::bitwise_not, of(ops::bitwise_not, x)), x},
      {"not_less", of(ops::not_, op(ops::less, {x, y})), op(ops::greater_or_equal, {x, y}),
       is_integer_x},
      {"not_greater", of(ops::not_, op(ops::greater, {x, y})), op(ops::less_or_equal, {x, y}),
       is_integer_x},
      {"choose_itself", op(ops::where, {value("condition"), x, x}), x},
      {"choose_by_not", op(ops::where, {of(ops::not_, value("condition")), x, y}),
       op(ops::where, {value("condition"), y, x})},
      {"squeeze_unsqueezed", op(ops::squeeze, {op(ops::unsqueeze, {x, y}), y}), x},
      {"unsqueeze_squeezed", op(ops::unsqueeze, {op(ops::squeeze, {x, y}), y}), x},
      // Exporters write gates as several ops: one op reads memory once instead of three times.
      {"raise_swish", x * op(ops::sigmoid, {x}), op(ops::swish, {x}), is_floating_x},
      {"raise_swiglu", op(ops::swish, {x}).named("gate") * y, op(ops::swiglu, {x, y}),
       has_plain_gate},
      {"identity_transpose", op(ops::transpose, {x}), drop_identity_transpose},
      {"transpose_matrices",
       op(ops::reshape, {op(ops::transpose, {op(ops::reshape, {x, value("merge")}).named("merged")},
                            {{"permutation", Integers{0, 2, 1}}}),
                         value("part")}),
       transpose_matrices},
      {"gather_one", op(ops::gather, {x, value("index")}), select_position},
      {"transpose_twice", op(ops::transpose, {op(ops::transpose, {x}).named("inner")}),
       join_transposes},
  });
  return rules;
}

const Pass simplify_algebra{
    .name = "simplify_algebra",
    .doc = "Applies bit-exact identities of arithmetic, casts and transposes.",
    .run = [](Program& program) { return simplify_algebra_rules().apply(program); },
};

}  // namespace lathe
