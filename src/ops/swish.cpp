// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register swish_op{{
    .name = "swish",
    .doc = "x * sigmoid(alpha * x).",
    .operands = {{"x", kFloats}},
    .attributes = {{"alpha", 1.0}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0);
      return x * sigmoid(x * f.number("alpha"));
    },
}};

}  // namespace lathe
