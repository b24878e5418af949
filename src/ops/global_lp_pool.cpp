// SPDX-License-Identifier: MIT
#include "ir/builder.h"
#include "ops/pool.h"

namespace lathe {

static const Register global_lp_pool{{
    .name = "global_lp_pool",
    .doc = "The p-norm of each plane.",
    .operands = {{.name = "x", .types = kPoolTypes}},
    .attributes = {{"p", 2}},
    .infer = infer_global_pool,
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const ElementType type = e.element(0);
          Value* p = b.scalar(type, static_cast<double>(e.integer("p")));
          Value* powers = b("pow", {b("abs", {e.operand(0)}), p});
          Value* sum = b("reduce_sum", {powers, spatial_axes(e)});
          e.result(b("pow", {sum, b("reciprocal", {p})}));
        },
}};

}  // namespace lathe
