// SPDX-License-Identifier: MIT
#include "ir/ops.h"
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
          Value* powers = b(ops::pow, {b(ops::abs, {x}), p});
          Value* sum = reduce(b, ops::reduce_sum, powers, axis_range(2, e.rank(0)));
          conclude(e, b(ops::pow, {sum, b(ops::reciprocal, {p})}));
        },
}};

}  // namespace lathe
