// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register celu_op{{
    .name = "celu",
    .doc = "max(0, x) + min(0, alpha * (exp(x / alpha) - 1)).",
    .operands = {{"x", kFloats}},
    .attributes = {{"alpha", 1.0}},
    .formula =
        [](const Formula& f) {
          Expr x = f.x(0);
          const double alpha = f.number("alpha");
          return max(x, 0) + min(expm1(x / alpha) * alpha, 0);
        },
}};

}  // namespace lathe
