// SPDX-License-Identifier: MIT
// Interval arithmetic over dims, and comparisons based on it.
#include <algorithm>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "tensor/dim.h"
#include "tensor/dim_node.h"

namespace lathe {
namespace {

using Func = Dim::Func;
using Node = Dim::Node;
using SymbolRanges = std::function<Range(const Symbol&)>;

// Function terms that a proof may expand.
constexpr int kProofSteps = 24;

constexpr Range kAnything{-kUnbounded, kUnbounded};

int64_t clamp(int64_t value) { return std::max(value, -kUnbounded); }

int64_t add_bounds(int64_t a, int64_t b, int64_t infinity) {
  if (a == infinity || b == infinity) return infinity;
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return a > 0 ? kUnbounded : -kUnbounded;
  return clamp(sum);
}

int64_t multiply_bounds(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? kUnbounded : -kUnbounded;
  return clamp(product);
}

Range add(const Range& a, const Range& b) {
  return {add_bounds(a.min, b.min, -kUnbounded), add_bounds(a.max, b.max, kUnbounded)};
}

Range multiply(const Range& a, const Range& b) {
  const auto [low, high] =
      std::minmax({multiply_bounds(a.min, b.min), multiply_bounds(a.min, b.max),
                   multiply_bounds(a.max, b.min), multiply_bounds(a.max, b.max)});
  return {low, high};
}

Range negate(const Range& a) { return {-a.max, -a.min}; }

Range unite(const Range& a, const Range& b) {
  return {std::min(a.min, b.min), std::max(a.max, b.max)};
}

// floor(a / b) of bounds, b > 0.
int64_t divide_bounds(int64_t a, int64_t b) {
  if (a == kUnbounded || a == -kUnbounded) return a;
  if (b == kUnbounded) return a < 0 ? -1 : 0;
  return *checked_floor_div(a, b);
}

// Union of `f` over the positive part of the divisor's range and over the negated negative part,
// with the dividend negated too. Excludes the divisor zero.
template <class F>
Range over_divisor_signs(const Range& a, const Range& b, const F& f) {
  const bool has_positive = b.max > 0;
  const bool has_negative = b.min < 0;
  const Range positive{std::max<int64_t>(b.min, 1), b.max};
  const Range negative{std::max<int64_t>(-b.max, 1), -b.min};
  if (has_positive && has_negative) return unite(f(a, positive, 1), f(negate(a), negative, -1));
  if (has_positive) return f(a, positive, 1);
  if (has_negative) return f(negate(a), negative, -1);
  return kAnything;
}

Range floor_div_range(const Range& a, const Range& b) {
  return over_divisor_signs(a, b, [](const Range& n, const Range& d, int) {
    // With the lower bound at +infinity the quotient may still be zero.
    const int64_t low = n.min == kUnbounded ? 0 : divide_bounds(n.min, n.min < 0 ? d.min : d.max);
    const int64_t high =
        n.max == -kUnbounded ? -1 : divide_bounds(n.max, n.max < 0 ? d.max : d.min);
    return Range{low, high};
  });
}

Range mod_range(const Range& a, const Range& b) {
  return over_divisor_signs(a, b, [](const Range& n, const Range& d, int sign) {
    Range range{0, d.max == kUnbounded ? kUnbounded : d.max - 1};
    if (n.min >= 0 && n.max < d.min) range = n;
    if (n.min >= 0) range.max = std::min(range.max, n.max);
    return sign > 0 ? range : negate(range);
  });
}

Range bcast_range(const Range& a, const Range& b) {
  // If both are at least 1, the result is the larger one.
  if (a.min >= 1 && b.min >= 1) return {std::max(a.min, b.min), std::max(a.max, b.max)};
  return unite(a, b);
}

Range atom_range(const Atom& atom, const SymbolRanges& ranges) {
  if (atom.symbol) {
    const Range range = ranges(*atom.symbol);
    return {clamp(range.min), clamp(range.max)};
  }
  std::vector<Range> args;
  for (const Dim& arg : atom.args) args.push_back(arg.range_under(ranges));
  return function_range(atom.func, args);
}

bool is_never_negative(const Dim& d, int& steps);

// True if bounds of f by its arguments prove rest + coefficient * f(...) >= 0.
bool is_never_negative_with(const Dim& rest, int64_t coefficient, const Atom& f, int& steps) {
  const auto with = [&](const Dim& arg) {
    return is_never_negative(rest + arg * coefficient, steps);
  };
  const bool positive = coefficient > 0;
  switch (f.func) {
    case Func::min:
      return positive ? std::all_of(f.args.begin(), f.args.end(), with)
                      : std::any_of(f.args.begin(), f.args.end(), with);
    case Func::max:
      return positive ? std::any_of(f.args.begin(), f.args.end(), with)
                      : std::all_of(f.args.begin(), f.args.end(), with);
    case Func::bcast: {
      const auto is_extent = [](const Dim& arg) { return arg.range().min >= 1; };
      return positive && std::all_of(f.args.begin(), f.args.end(), is_extent) &&
             std::any_of(f.args.begin(), f.args.end(), with);
    }
    case Func::floor_div: {
      // x - (c - 1) <= c * floor_div(x, c) <= x for a constant c > 0.
      const int64_t c = f.args[1].constant().value_or(0);
      if (c <= 0) return false;
      const Dim bound = positive ? f.args[0] - (c - 1) : f.args[0];
      return is_never_negative(rest * c + bound * coefficient, steps);
    }
    case Func::ceil_div:
    case Func::mod:
      return false;
  }
  return false;
}

bool is_never_negative(const Dim& d, int& steps) {
  if (d.range().min >= 0) return true;
  for (const Term& term : Node::terms_of(d)) {
    if (term.factors.size() != 1 || term.factors[0]->symbol) continue;
    if (--steps < 0) return false;
    const Dim rest = d - Node::make({term}, 0);
    if (is_never_negative_with(rest, term.coefficient, *term.factors[0], steps)) return true;
  }
  return false;
}

bool is_never_negative(const Dim& d) {
  int steps = kProofSteps;
  return is_never_negative(d, steps);
}

// True if the greatest common divisor of the coefficients excludes the value zero.
bool is_indivisible(const Dim& d) {
  int64_t divisor = 0;
  for (const Term& term : Node::terms_of(d)) {
    if (term.coefficient == std::numeric_limits<int64_t>::min()) return false;
    divisor = std::gcd(divisor, term.coefficient);
  }
  return divisor > 1 && Node::constant_of(d) % divisor != 0;
}

}  // namespace

Range function_range(Dim::Func func, std::span<const Range> args) {
  Range result = args[0];
  for (const Range& next : args.subspan(1)) {
    switch (func) {
      case Func::floor_div:
        result = floor_div_range(result, next);
        break;
      case Func::ceil_div:  // -floor(-a / b)
        result = negate(floor_div_range(negate(result), next));
        break;
      case Func::mod:
        result = mod_range(result, next);
        break;
      case Func::min:
        result = {std::min(result.min, next.min), std::min(result.max, next.max)};
        break;
      case Func::max:
        result = {std::max(result.min, next.min), std::max(result.max, next.max)};
        break;
      case Func::bcast:
        result = bcast_range(result, next);
        break;
    }
  }
  return result;
}

Range Dim::range_under(const std::function<Range(const Symbol&)>& ranges) const {
  Range sum{clamp(constant_), clamp(constant_)};
  for (const Term& term : Node::terms_of(*this)) {
    Range product{clamp(term.coefficient), clamp(term.coefficient)};
    for (const AtomRef& factor : term.factors) {
      product = multiply(product, atom_range(*factor, ranges));
    }
    sum = add(sum, product);
  }
  return sum;
}

Range Dim::range() const {
  if (!node_) return {clamp(constant_), clamp(constant_)};
  return range_under([](const Symbol& symbol) { return symbol.range; });
}

// Unknown also if the difference does not fit in 64 bits or exceeds the size limit.
Ternary equal(const Dim& a, const Dim& b) {
  if (a == b) return Ternary::yes;
  if (a.is_constant() && b.is_constant()) return Ternary::no;
  try {
    const Dim difference = a - b;
    if (is_indivisible(difference) || is_never_negative(difference - 1) ||
        is_never_negative(0 - difference - 1)) {
      return Ternary::no;
    }
  } catch (const Error&) {
    return Ternary::unknown;
  }
  return Ternary::unknown;
}

Ternary less_equal(const Dim& a, const Dim& b) {
  if (a.is_constant() && b.is_constant()) {
    return *a.constant() <= *b.constant() ? Ternary::yes : Ternary::no;
  }
  try {
    const Dim difference = b - a;
    if (is_never_negative(difference)) return Ternary::yes;
    if (is_never_negative(0 - difference - 1)) return Ternary::no;
  } catch (const Error&) {
    return Ternary::unknown;
  }
  return Ternary::unknown;
}

}  // namespace lathe
