// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register leaky_relu_op{{
    .name = "leaky_relu",
    .doc = "x, or alpha * x where x < 0.",
    .operands = {{"x", kFloats}},
    .attributes = {{"alpha", 0.01}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0);
      return select(x < 0, x * f.number("alpha"), x);
    },
}};

}  // namespace lathe
