// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_mean{reduction_op({
    .name = "reduce_mean",
    .doc =
        "The mean over the given axes; integers truncate. An empty mean is NaN, or 0 for integers.",
    .combine = ExprOp::add,
    .finish = [](const Expr& v, const Expr& n) { return v / n; },
})};

}  // namespace lathe
