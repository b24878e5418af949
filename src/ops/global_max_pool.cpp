// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/support/pooling.h"

namespace lathe {

static const Register global_max_pool{{
    .name = "global_max_pool",
    .doc = "The maximum of each plane.",
    .operands = {{"x", kPoolTypes}},
    .infer = infer_global_pool,
    .expand =
        [](Expansion& e) {
          conclude(e, reduce(e.b, ops::reduce_max, e.operand(0), axis_range(2, e.rank(0))));
        },
}};

}  // namespace lathe
