// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register hard_swish_op{{
    .name = "hard_swish",
    .doc = "x * max(0, min(1, x / 6 + 0.5)).",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0);
      return x * max(min(x * (1.0 / 6) + 0.5, 1), 0);
    },
}};

}  // namespace lathe
