// SPDX-License-Identifier: MIT
#include "ops/math.h"
#include "ops/math/coefficients.h"
#include "ops/math/real.h"

namespace lathe {

// An odd polynomial up to 1; beyond, 1 - e^P(|x|), where P fits log(erfc). Errors of P matter
// little because erfc is small. At most 1.5 ulp in f32, 2 ulp in f64.
Expr erf(const Expr& x) {
  const Real real(x);
  const auto near = real.choose(coefficients::kErfF32, coefficients::kErfF64);
  const auto far = real.choose(coefficients::kLogErfcF32, coefficients::kLogErfcF64);
  const Expr a = min(abs(x), real.choose(4, 6));
  const Expr outer = 1 - exp(polynomial(a, far));
  return select(abs(x) <= 1, fma(x, polynomial(x * x, near), x), copysign(outer, x));
}

// x - |x| P(X > |x|) where x is positive, else -|x| P(X > |x|): no difference of nearly equal
// terms. The f32 tail is 2^P(|x|), and 0 below 2^-126.
Expr gelu(const Expr& x) {
  const Real real(x);
  // P is 0 at -64 in every type, as at -inf, where the product would be NaN.
  if (!real.single) return max(x, -64) * 0.5 * (1 + erf(x * 0.70710678118654752));
  const Expr a = min(abs(x), 10.5);
  const Expr power = max(polynomial(a, coefficients::kLogNormalTailF32), -127);
  const Rounded k = round_to_integer(power);
  const Expr r = power - k.real;
  const Expr tail =
      fma(polynomial(r, coefficients::kExp2F32), r, 1) * power_of_two(k.integer, real);
  return fma(-a, tail, max(x, 0));
}

}  // namespace lathe
