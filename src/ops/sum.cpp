// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register sum_op{{
    .name = "sum",
    .doc = "The sum of the operands.",
    .operands = {{"x", kFloats, Arity::variadic, 'T'}},
    .formula = [](const Formula& f) { return f.fold([](Expr a, Expr b) { return a + b; }); },
}};

}  // namespace lathe
