// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register probit_op{{
    .name = "probit",
    .doc = "sqrt(2) * erfinv(2 x - 1), with Winitzki's approximation of erfinv.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0) * 2 - 1;
      const Expr logarithm = log((1 - x) * (1 + x));
      const Expr half = logarithm * 0.5 + 2 / (3.14159 * 0.147);
      const Expr root = sqrt(sqrt(half * half - logarithm * (1 / 0.147)) - half);
      return copysign(root, x) * 1.41421356;
    },
}};

}  // namespace lathe
