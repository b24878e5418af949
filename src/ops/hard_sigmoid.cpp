// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register hard_sigmoid_op{{
    .name = "hard_sigmoid",
    .doc = "max(0, min(1, alpha * x + beta)).",
    .operands = {{"x", kFloats}},
    .attributes = {{"alpha", 0.2}, {"beta", 0.5}},
    .formula = [](const Formula& f) -> Expr {
      return max(min(f.x(0) * f.number("alpha") + f.number("beta"), 1), 0);
    },
}};

}  // namespace lathe
