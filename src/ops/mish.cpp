// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register mish_op{{
    .name = "mish",
    .doc = "x * tanh(softplus(x)).",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0);
      return x * tanh(softplus(x));
    },
}};

}  // namespace lathe
