// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register mean_op{{
    .name = "mean",
    .doc = "The mean of the operands.",
    .operands = {{"x", kFloats, Arity::variadic, 'T'}},
    .formula = [](const Formula& f) -> Expr {
      return f.fold([](Expr a, Expr b) { return a + b; }) / f.count();
    },
}};

}  // namespace lathe
