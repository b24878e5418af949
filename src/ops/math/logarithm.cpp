// SPDX-License-Identifier: MIT
#include <cmath>

#include "ops/math.h"
#include "ops/math/coefficients.h"
#include "ops/math/real.h"

namespace lathe {
namespace {

// k ln 2 + log(1 + f) + tail. With s = f / (2 + f), log(1 + f) = 2 atanh(s) = 2s + 2s z P(z), and
// 2s = f - h + s h with h = f²/2. The largest term, f, is added last and is exact.
Expr log_sum(const Expr& k, const Expr& f, const Expr& tail) {
  const Real real(f);
  const auto p = real.choose(coefficients::kLogF32, coefficients::kLogF64);
  const auto ln2 = real.choose(coefficients::kLn2F32, coefficients::kLn2F64);
  const Expr s = f / (f + 2);
  const Expr z = s * s;
  const Expr h = f * f * 0.5;
  const Expr small = fma(s, fma(z * 2, polynomial(z, p), h), fma(k, ln2[1], tail));
  return fma(k, ln2[0], f - (h - small));
}

}  // namespace

// At most 1 ulp.
Expr log(const Expr& x) {
  const LogArgument split = reduce_log(x);
  const Expr y = log_sum(split.k, split.m - 1, Expr::constant(x.type(), 0));
  return select(x > 0, select(x == kInfinity, x, y), select(x == 0, -kInfinity, x * kNaN));
}

// log(u) + c / u, where u = 1 + x rounded and c is its rounding error. If u needs no scaling, u - 1
// is x itself. At most 1.5 ulp.
Expr log1p(const Expr& x) {
  const Real real(x);
  const Expr u = x + 1;
  const Expr c = select(x < 1, x - (u - 1), 1 - (u - x));
  const LogArgument split = reduce_log(u);
  const Expr direct = split.k == 0;
  const Expr y = log_sum(split.k, select(direct, x, split.m - 1), select(direct, 0, c / u));
  const Expr edges = select(x == -1, -kInfinity, select(x > 0, x, x * kNaN));
  const Expr regular = select(x > -1 && x < kInfinity, y, edges);
  return select(abs(x) < real.epsilon() / 4, x, regular);
}

// max(x, 0) + log(1 + e^-|x|). At most 2 ulp.
Expr softplus(const Expr& x) { return max(x, 0) + log1p(exp(-abs(x))); }

// log(a + sqrt(a² + 1)) as log1p(a + a² / (1 + sqrt(a² + 1))); log(a) + log(2) for large a. At most
// 3 ulp.
Expr asinh(const Expr& x) {
  const Real real(x);
  const Expr a = abs(x);
  const Expr far = a > std::ldexp(1.0, real.mantissa + 4);
  const Expr square = a * a;
  const Expr near = a + square / (sqrt(square + 1) + 1);
  const Expr y = log1p(select(far, a, near));
  return copysign(y + select(far, Expr::constant(real.type, std::log(2.0)), 0), x);
}

// With t = x - 1: log1p(t + sqrt(t² + 2t)); log(x) + log(2) for large x. At most 3 ulp.
Expr acosh(const Expr& x) {
  const Real real(x);
  const Expr t = x - 1;
  const Expr far = x > std::ldexp(1.0, real.mantissa + 4);
  const Expr y = log1p(select(far, x, t + sqrt(fma(t, t, t * 2))));
  const Expr sum = y + select(far, Expr::constant(real.type, std::log(2.0)), 0);
  return select(x >= 1, sum, x * kNaN);
}

// log1p(2a / (1 - a)) / 2. At most 3 ulp.
Expr atanh(const Expr& x) {
  const Expr a = abs(x);
  const Expr y = log1p(a * 2 / (1 - a)) * 0.5;
  return copysign(select(a <= 1, y, a * kNaN), x);
}

}  // namespace lathe
