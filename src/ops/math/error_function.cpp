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

}  // namespace lathe
