// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register sign_op{{
    .name = "sign",
    .doc = "-1, 0 or 1 by the sign of x; NaN for NaN.",
    .operands = {{"x", kNumeric}},
    .formula = [](const Formula& f) -> Expr {
      const Expr one = Expr::constant(f.type(), 1);
      return select(f.x(0) > 0, one, select(f.x(0) < 0, 0 - one, f.x(0)));
    },
}};

}  // namespace lathe
