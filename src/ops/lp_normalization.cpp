// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/token_step.h"

namespace lathe {

static const Register lp_normalization{{
    .name = "lp_normalization",
    .doc = "x divided by its p-norm along an axis; 0 where the norm is 0.",
    .operands = {{"x", kFloats}},
    .attributes = {{"axis", -1}, {"p", 2}},
    .infer =
        [](Infer& c) {
          c.axis("axis", c.rank(0));
          c.check(c.integer("p") == 1 || c.integer("p") == 2, "p is {}, expected 1 or 2",
                  c.integer("p"));
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          Value* x = widen(b, e.operand(0));
          const int axis = e.axis("axis", e.rank(0));
          Value* norm = reduce(b, e.integer("p") == 1 ? ops::reduce_l1 : ops::reduce_l2, x, {axis});
          Value* zero = b.scalar(x->type().element, 0);
          // 0 / 1 where the norm is zero.
          Value* one = b.scalar(x->type().element, 1);
          conclude(e, b(ops::div, {x, b(ops::where, {b(ops::equal, {norm, zero}), one, norm})}));
        },
    .tokens = tokens_beside_axis_attribute,
}};

}  // namespace lathe
