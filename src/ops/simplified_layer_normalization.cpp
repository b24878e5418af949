// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/token_step.h"

namespace lathe {

static const Register simplified_layer_normalization{{
    .name = "simplified_layer_normalization",
    .doc = "x / sqrt(mean of squares + epsilon) · scale over the axes from `axis` on; also the "
           "factor.",
    .operands = {{"x", kFloats}, {"scale", kFloats}},
    .attributes = {{"axis", -1},
                   {"epsilon", Attribute(1e-5)},
                   {"stash_type", Attribute(ElementType::f32)}},
    .results = 2,
    .infer =
        [](Infer& c) {
          const int axis = c.axis("axis", c.rank(0));
          require_broadcast(c, {1});
          c.result(c.element(1), c.dims(0));
          c.result(c.element_type("stash_type"), reduced_from(c, 0, axis));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto axes = axis_range(e.axis("axis", e.rank(0)), e.rank(0));
          const Normalized n = normalize_rms(b, widen(b, e.operand(0)), axes, e.number("epsilon"));
          conclude(e, b(ops::mul, {n.value, b.cast(e.operand(1), n.value->type().element)}));
          conclude(e, n.inverse);
        },
    .tokens = tokens_before_axis_attribute,
}};

}  // namespace lathe
