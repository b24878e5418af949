// SPDX-License-Identifier: MIT
#include "ir/builder.h"
#include "ops/pool.h"

namespace lathe {

static const Register global_average_pool{{
    .name = "global_average_pool",
    .doc = "The mean of each plane.",
    .operands = {{.name = "x", .types = kPoolTypes}},
    .infer = infer_global_pool,
    .expand = [](Expansion& e) { e.result(e.b("reduce_mean", {e.operand(0), spatial_axes(e)})); },
}};

}  // namespace lathe
