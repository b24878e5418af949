// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_max{reduction_op({
    .name = "reduce_max",
    .doc = "The greatest element over the given axes; NaN if any is NaN.",
    .types = kNumeric | kBoolean,
    .combine = ExprOp::max,
})};

}  // namespace lathe
