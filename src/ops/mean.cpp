// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register mean_op{{
    .name = "mean",
    .doc = "The mean of the operands.",
    .operands = {{"x", kFloats, Arity::variadic, 'T'}},
    .formula =
        [](const Formula& f) {
          Expr y = f.x(0);
          for (int i = 1; i < f.count(); ++i) y = y + f.x(i);
          return y / static_cast<double>(f.count());
        },
}};

}  // namespace lathe
