// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register selu_op{{
    .name = "selu",
    .doc = "gamma * elu(x, alpha).",
    .operands = {{"x", kFloats}},
    .attributes = {{"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0);
      return select(x > 0, x, expm1(x) * f.number("alpha")) * f.number("gamma");
    },
}};

}  // namespace lathe
