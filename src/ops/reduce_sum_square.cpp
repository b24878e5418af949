// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_sum_square{reduction_op({
    .name = "reduce_sum_square",
    .doc = "The sum of squares over the given axes.",
    .combine = ExprOp::add,
    .term = [](const Expr& x) { return x * x; },
})};

}  // namespace lathe
