// SPDX-License-Identifier: MIT
#include "ops/support/composite.h"

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
          Value* norm = reduce(b, e.integer("p") == 1 ? "reduce_l1" : "reduce_l2", x, {axis});
          Value* zero = b.scalar(x->type().element, 0);
          // 0 / 1 where the norm is zero.
          Value* one = b.scalar(x->type().element, 1);
          conclude(e, b("div", {x, b("where", {b("equal", {norm, zero}), one, norm})}));
        },
}};

}  // namespace lathe
