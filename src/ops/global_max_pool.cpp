// SPDX-License-Identifier: MIT
#include "ir/builder.h"
#include "ops/pool.h"

namespace lathe {

static const Register global_max_pool{{
    .name = "global_max_pool",
    .doc = "The maximum of each plane.",
    .operands = {{.name = "x", .types = kPoolTypes}},
    .infer = infer_global_pool,
    .expand = [](Expansion& e) { e.result(e.b("reduce_max", {e.operand(0), spatial_axes(e)})); },
}};

}  // namespace lathe
