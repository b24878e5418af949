// SPDX-License-Identifier: MIT
#include "ops/support/reduction.h"

namespace lathe {

static const Register reduce_prod{reduction_op({
    .name = "reduce_prod",
    .doc = "The product over the given axes; 1 if empty.",
    .combine = ExprOp::mul,
})};

}  // namespace lathe
