// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register celu_op{{
    .name = "celu",
    .doc = "max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).",
    .operands = {{"x", kFloats}},
    .attributes = {{"alpha", 1.0}},
    .formula = [](const Formula& f) -> Expr {
      const double alpha = f.number("alpha");
      return max(f.x(0), 0) + min(expm1(f.x(0) / alpha) * alpha, 0);
    },
}};

}  // namespace lathe
