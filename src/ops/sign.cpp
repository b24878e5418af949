// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register sign_op{{
    .name = "sign",
    .doc = "-1, 0 or 1 by the sign of x; NaN stays.",
    .operands = {{"x", kNumeric}},
    .formula =
        [](const Formula& f) {
          Expr x = f.x(0);
          return select(x > 0, x * 0 + 1, select(x < 0, x * 0 - 1, x));
        },
}};

}  // namespace lathe
