// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register elu_op{{
    .name = "elu",
    .doc = "x, or alpha * (exp(x) - 1) where x < 0.",
    .operands = {{"x", kFloats}},
    .attributes = {{"alpha", 1.0}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0);
      return select(x < 0, expm1(x) * f.number("alpha"), x);
    },
}};

}  // namespace lathe
