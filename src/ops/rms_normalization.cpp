// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/token_step.h"

namespace lathe {

static const Register rms_normalization{{
    .name = "rms_normalization",
    .doc = "x / sqrt(mean of squares + epsilon) · scale over the axes from `axis` on.",
    .operands = {{"x", kFloats}, {"scale", kFloats}},
    .attributes = {{"axis", -1},
                   {"epsilon", Attribute(1e-5)},
                   {"stash_type", Attribute(ElementType::f32)}},
    .infer =
        [](Infer& c) {
          c.axis("axis", c.rank(0));
          require_broadcast(c, {1});
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto axes = axis_range(e.axis("axis", e.rank(0)), e.rank(0));
          const Normalized n = normalize_rms(b, widen(b, e.operand(0)), axes, e.number("epsilon"));
          conclude(e, b(ops::mul, {n.value, b.cast(e.operand(1), n.value->type().element)}));
        },
    .tokens = tokens_before_axis_attribute,
}};

}  // namespace lathe
