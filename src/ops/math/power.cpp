// SPDX-License-Identifier: MIT
#include <cmath>

#include "ops/math.h"
#include "ops/math/coefficients.h"
#include "ops/math/real.h"

namespace lathe {
namespace {

// An unevaluated sum: twice the precision of its type.
struct Pair {
  Expr high;
  Expr low;
};

// Fast2Sum: high + low is a + b exactly, for |a| >= |b|.
Pair sum_ordered(const Expr& a, const Expr& b) {
  const Expr high = a + b;
  return {high, b - (high - a)};
}

Pair product(const Pair& a, const Pair& b) {
  const Expr high = a.high * b.high;
  const Expr low = fma(a.high, b.high, -high);
  return {high, fma(a.high, b.low, fma(a.low, b.high, low))};
}

// log(x) for finite x > 0, with about 10 bits more than the type: k ln 2 + 2s (1 + z (1/3 + z
// P(z))). A term whose low part is negligible is a single value.
Pair log_pair(const Expr& x) {
  const Real real(x);
  const auto ln2 = real.choose(coefficients::kLn2F32, coefficients::kLn2F64);
  const auto third = real.choose(coefficients::kThirdF32, coefficients::kThirdF64);
  const auto p = real.choose(coefficients::kLogTailF32, coefficients::kLogTailF64);
  const LogArgument split = reduce_log(x);
  const Expr f = split.m - 1;
  const Pair divisor = sum_ordered(Expr::constant(real.type, 2), f);
  const Expr quotient = f / divisor.high;
  const Expr rest = fma(-quotient, divisor.high, f) - quotient * divisor.low;
  const Pair s{quotient, rest / divisor.high};
  const Pair z = product(s, s);
  const Pair bracket = sum_ordered(Expr::constant(real.type, third[0]),
                                   fma(z.high, polynomial(z.high, p), third[1]));
  const Pair tail = product(s, product(z, bracket));
  const Pair atanh = sum_ordered(s.high, tail.high);
  const Pair log_m{atanh.high * 2, (atanh.low + (s.low + tail.low)) * 2};
  // For k = 0 the larger term is log_m, else k ln 2: either order is exact.
  const Expr scaled = split.k * ln2[0];
  const Expr high = scaled + log_m.high;
  const Expr lost = select(split.k == 0, 0, log_m.high - (high - scaled));
  return {high, lost + fma(split.k, ln2[1], log_m.low)};
}

// e^(high + low); 0 or infinity if out of range.
Expr exp_pair(const Pair& x) {
  const Expr clamped = clamp_exp(x.high);
  const ExpArgument split = reduce_exp(clamped);
  const Expr r = split.r + select(clamped == x.high, x.low, 0);
  return scale(exp_near_zero(r), split.k);
}

Expr real_pow(const Expr& x, const Expr& y) {
  const Expr a = abs(x);
  const Pair log_a = log_pair(a);
  const Expr limit = select(a == 0, -kInfinity, select(a == kInfinity, a, log_a.high));
  const Expr high = y * limit;
  const Expr low = fma(y, log_a.high, -high) + y * log_a.low;
  const Expr size = exp_pair({high, low});
  const Expr is_integral = floor(y) == y;
  const Expr odd = is_integral && floor(y * 0.5) != y * 0.5;
  const Expr negative = (bitcast(x, Real(x).bits) < 0);
  const Expr defined = !(x < 0) || is_integral || a == kInfinity;
  const Expr y_signed = select(negative && odd, -size, size);
  const Expr one = x == 1 || y == 0 || (x == -1 && abs(y) == kInfinity);
  return select(one, 1, select(is_nan(x) || is_nan(y), x + y, select(defined, y_signed, kNaN)));
}

// x^n by squaring, for the six low bits of n.
Expr integer_pow(const Expr& x, const Expr& n) {
  Expr result = Expr::constant(x.type(), 1);
  Expr square = x;
  for (int bit = 0; bit < 6; ++bit) {
    result = select((n & (int64_t{1} << bit)) != 0, result * square, result);
    square = square * square;
  }
  const Expr zero = Expr::constant(x.type(), 0);
  Expr unit = select(x == 1, 1, zero);  // powers of 1 and -1, else 0
  if (x.type() != ExprType::u64) unit = select(x == -1, select((n & 1) != 0, x, 1), unit);
  return select(n >= 0 && n < 64, result, unit);
}

}  // namespace

// Floats: e^(y log|x|) in pairs, with the sign of odd powers; at most 1.5 ulp.
Expr pow(const Expr& x, const Expr& y) {
  return is_floating(x.type()) ? real_pow(x, y) : integer_pow(x, y);
}

// At most 1.5 ulp: two correctly rounded steps.
Expr rsqrt(const Expr& x) { return 1 / sqrt(x); }

}  // namespace lathe
