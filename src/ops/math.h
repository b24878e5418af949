// SPDX-License-Identifier: MIT
// Mathematical functions as expressions of node ops, for f32 and f64. Generated code calls no math
// library, and every target computes the same bits.
//
// Bounds are in ulp of the exact result, f32 / f64, over all arguments unless a domain is given;
// tests measure them. Special values follow C99: infinities, NaN, -0, overflow and denormals.
#pragma once

#include <limits>

#include "ir/expr.h"

namespace lathe {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Expr exp(const Expr& x);    // 1 / 1
Expr expm1(const Expr& x);  // 2 / 2
Expr log(const Expr& x);    // 1 / 1
Expr log1p(const Expr& x);  // 1.5 / 1.5

// Any magnitude of the argument.
Expr sin(const Expr& x);  // 1 / 1
Expr cos(const Expr& x);  // 1 / 1
Expr tan(const Expr& x);  // 2.5 / 2.5

Expr asin(const Expr& x);  // 1 / 1
Expr acos(const Expr& x);  // 1.5 / 1.5
Expr atan(const Expr& x);  // 1.5 / 1.5

Expr sinh(const Expr& x);   // 3 / 3
Expr cosh(const Expr& x);   // 2 / 2
Expr tanh(const Expr& x);   // 2.5 / 3
Expr asinh(const Expr& x);  // 3 / 3
Expr acosh(const Expr& x);  // 3 / 3
Expr atanh(const Expr& x);  // 3 / 3

Expr erf(const Expr& x);       // 1.5 / 2
Expr gelu(const Expr& x);      // 3 / 3 of |x|; x P(X <= x) of the normal distribution
Expr sigmoid(const Expr& x);   // 2.5 / 2.5; 1 / (1 + e^-x)
Expr softplus(const Expr& x);  // 2 / 2; log(1 + e^x)
Expr rsqrt(const Expr& x);     // 1.5 / 1.5; 1 / sqrt(x)

// Floats: 1.5 / 1.5, with C99's table of special cases. Integers: exact modulo 2^64 for exponents
// from 0 to 63; larger exponents return 0 unless the base is -1, 0 or 1. Negative exponents
// truncate 1 / x^n toward zero; 0 to a negative power is 0.
Expr pow(const Expr& x, const Expr& y);

// Remainder of truncated division (fmod: sign of x) or floored division (mod: sign of y): exact.
// Integers with y = 0 return x.
Expr fmod(const Expr& x, const Expr& y);
Expr mod(const Expr& x, const Expr& y);

// |x| with the sign bit of y.
Expr copysign(const Expr& x, const Expr& y);

}  // namespace lathe
