// SPDX-License-Identifier: MIT
// Mathematical functions as expressions of the node ops alone, for f32 and f64: generated code
// calls no math library, and every target computes the same bits.
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

// However large the argument.
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
Expr sigmoid(const Expr& x);   // 2.5 / 2.5; 1 / (1 + e^-x)
Expr softplus(const Expr& x);  // 2 / 2; log(1 + e^x)
Expr rsqrt(const Expr& x);     // 1.5 / 1.5; 1 / sqrt(x)

// Floats: 1.5 / 1.5, with C99's table of special cases. Integers: exact modulo 2^64 for exponents
// from 0 to 63; beyond, bases other than -1, 0 and 1 give 0; negative exponents truncate 1 / x^n
// toward zero, and 0 to a negative power is 0.
Expr pow(const Expr& x, const Expr& y);

// The remainder of truncated (fmod: sign of x) or floored (mod: sign of y) division: exact, for
// integers too, where y = 0 gives x.
Expr fmod(const Expr& x, const Expr& y);
Expr mod(const Expr& x, const Expr& y);

// |x| with the sign bit of y.
Expr copysign(const Expr& x, const Expr& y);

}  // namespace lathe
