// SPDX-License-Identifier: MIT
#include "ops/math.h"
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_log_sum{reduction_op({
    .name = "reduce_log_sum",
    .doc = "The logarithm of the sum over the given axes.",
    .combine = ExprOp::add,
    .finish = [](const Expr& v, const Expr& /*n*/) { return log(v); },
    .real = true,
})};

}  // namespace lathe
