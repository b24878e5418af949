// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/support/pooling.h"

namespace lathe {

static const Register global_average_pool{{
    .name = "global_average_pool",
    .doc = "The mean of each plane.",
    .operands = {{"x", kPoolTypes}},
    .infer = infer_global_pool,
    .expand =
        [](Expansion& e) {
          conclude(e, reduce(e.b, ops::reduce_mean, e.operand(0), axis_range(2, e.rank(0))));
        },
}};

}  // namespace lathe
