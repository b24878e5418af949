// SPDX-License-Identifier: MIT
#include "ops/support/composite.h"
#include "ops/support/pooling.h"

namespace lathe {

static const Register global_lp_pool{{
    .name = "global_lp_pool",
    .doc = "The p-norm of each plane.",
    .operands = {{"x", kPoolTypes}},
    .attributes = {{"p", 2}},
    .infer = infer_global_pool,
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          Value* x = widen(b, e.operand(0));
          Value* p = b.scalar(x->type().element, static_cast<double>(e.integer("p")));
          Value* powers = b("pow", {b("abs", {x}), p});
          Value* sum = reduce(b, "reduce_sum", powers, axis_range(2, e.rank(0)));
          conclude(e, b("pow", {sum, b("reciprocal", {p})}));
        },
}};

}  // namespace lathe
