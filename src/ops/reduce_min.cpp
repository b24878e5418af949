// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_min{reduction_op({
    .name = "reduce_min",
    .doc = "The smallest element over the given axes; NaN if any is NaN.",
    .types = kNumeric | kBoolean,
    .combine = ExprOp::min,
})};

}  // namespace lathe
