// SPDX-License-Identifier: MIT
// Building blocks of the mathematical functions, and the layout of the two float types.
#pragma once

#include <array>
#include <limits>
#include <span>

#include "ops/math.h"

namespace lathe {

// Constants of an expression's float type.
struct Real {
  explicit Real(const Expr& x);

  bool single;  // f32
  ExprType type;
  ExprType bits;  // integer type of equal width
  int mantissa;   // stored bits: 23 or 52
  int bias;       // of the exponent: 127 or 1023

  double choose(double f32, double f64) const { return single ? f32 : f64; }
  template <size_t N, size_t M>
  std::span<const double> choose(const std::array<double, N>& f32,
                                 const std::array<double, M>& f64) const {
    return single ? std::span<const double>(f32) : std::span<const double>(f64);
  }
  double epsilon() const;  // 2^-mantissa
  int64_t sign_bit() const {
    return single ? std::numeric_limits<int32_t>::min() : std::numeric_limits<int64_t>::min();
  }
  // 1.5 · 2^mantissa: adding it rounds to an integer, in the low bits of the sum.
  double magic() const;
};

// Horner's scheme with fma, lowest power first.
Expr polynomial(const Expr& x, std::span<const double> coefficients);

// Nearest integer of |x| < 2^(mantissa-1), as a float and as an integer.
struct Rounded {
  Expr real;
  Expr integer;
};
Rounded round_to_integer(const Expr& x);
// Converts an integer of that size to a float.
Expr integer_to_real(const Expr& integer, const Real& real);

// power_of_two: 2^k for a normal result. scale: x · 2^k with one rounding, for |k| up to twice the
// exponent range.
Expr power_of_two(const Expr& k, const Real& real);
Expr scale(const Expr& x, const Expr& k);

// x = k ln 2 + r with |r| <= ln(2)/2.
struct ExpArgument {
  Expr r;
  Expr k;
};
ExpArgument reduce_exp(const Expr& x);
// Clamps x to slightly more than the range where exp is neither 0 nor infinite.
Expr clamp_exp(const Expr& x);
// e^r and e^r - 1 for |r| <= ln(2)/2.
Expr exp_near_zero(const Expr& r);
Expr expm1_near_zero(const Expr& r);

// x = m · 2^k with m from sqrt(1/2) to sqrt(2), for finite x > 0.
struct LogArgument {
  Expr m;
  Expr k;  // a float
};
LogArgument reduce_log(const Expr& x);

}  // namespace lathe
