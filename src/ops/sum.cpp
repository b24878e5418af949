// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register sum_op{{
    .name = "sum",
    .doc = "The sum of the operands.",
    .operands = {{"x", kFloats, Arity::variadic, 'T'}},
    .formula =
        [](const Formula& f) {
          Expr y = f.x(0);
          for (int i = 1; i < f.count(); ++i) y = y + f.x(i);
          return y;
        },
}};

}  // namespace lathe
