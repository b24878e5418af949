// SPDX-License-Identifier: MIT
#include <cmath>

#include "ops/math.h"
#include "ops/math/real.h"

namespace lathe {
namespace {

// e^a / 2 for a >= 0; overflows only where sinh and cosh do.
Expr half_exp(const Expr& a) {
  const Real real(a);
  const ExpArgument split = reduce_exp(min(a, real.choose(90, 711)));
  return scale(exp_near_zero(split.r), split.k - 1);
}

}  // namespace

// e^x = 2^k e^r. At most 1 ulp: the polynomial's last addition and the rounding of r.
Expr exp(const Expr& x) {
  const ExpArgument split = reduce_exp(clamp_exp(x));
  return scale(exp_near_zero(split.r), split.k);
}

// 2^k (e^r - 1) + (2^k - 1), halved inside to avoid 2^128. At most 2 ulp, where the terms have
// opposite signs (k = 1).
Expr expm1(const Expr& x) {
  const Real real(x);
  const Expr bounded = max(clamp_exp(x), real.choose(-18, -38));
  const ExpArgument split = reduce_exp(bounded);
  const Expr half = power_of_two(split.k - 1, real);
  const Expr y = fma(half, expm1_near_zero(split.r), half - 0.5) * 2;
  return select(abs(x) < real.epsilon() / 2, x, y);
}

// With q = e^-2|x|: (1 - q) / (1 + q) near 0, where expm1 computes q - 1 accurately; else 1 - 2q /
// (1 + q), whose second term is small. At most 2.5 ulp in f32, 3 ulp in f64.
Expr tanh(const Expr& x) {
  const Expr a = abs(x);
  const Expr t = expm1(a * -2), q = exp(a * -2);
  return copysign(select(a < 0.55, -t / (t + 2), 1 - q * 2 / (q + 1)), x);
}

// Near 0 from e^x - 1, else e^x/2 - 1/(4 e^x/2). At most 3 ulp.
Expr sinh(const Expr& x) {
  const Expr a = abs(x);
  const Expr t = expm1(min(a, 1));
  const Expr h = half_exp(a);
  return copysign(select(a < 1, (t + t / (t + 1)) * 0.5, h - 0.25 / h), x);
}

// e^x/2 + 1/(4 e^x/2). At most 2 ulp.
Expr cosh(const Expr& x) {
  const Expr h = half_exp(abs(x));
  return h + 0.25 / h;
}

// With t = e^-|x|: 1 / (1 + t) or t / (1 + t), neither of which overflows. At most 2.5 ulp.
Expr sigmoid(const Expr& x) {
  const Expr t = exp(-abs(x));
  return select(x >= 0, 1, t) / (t + 1);
}

}  // namespace lathe
