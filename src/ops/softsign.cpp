// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register softsign_op{{
    .name = "softsign",
    .doc = "x / (1 + |x|).",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) -> Expr {
      const Expr x = f.x(0);
      return x / (1 + abs(x));
    },
}};

}  // namespace lathe
