// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_l1{reduction_op({
    .name = "reduce_l1",
    .doc = "The sum of magnitudes over the given axes.",
    .combine = ExprOp::add,
    .term = [](const Expr& x) { return x.type() == ExprType::u64 ? x : abs(x); },
})};

}  // namespace lathe
