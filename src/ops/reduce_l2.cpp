// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_l2{reduction_op({
    .name = "reduce_l2",
    .doc = "The square root of the sum of squares over the given axes.",
    .combine = ExprOp::add,
    .term = [](const Expr& x) { return x * x; },
    .finish = [](const Expr& v, const Expr& /*n*/) { return sqrt(v); },
    .real = true,
})};

}  // namespace lathe
