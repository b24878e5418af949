// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_sum{reduction_op({
    .name = "reduce_sum",
    .doc = "The sum over the given axes; 0 if empty.",
    .combine = ExprOp::add,
})};

}  // namespace lathe
