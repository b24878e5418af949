// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/token_step.h"

namespace lathe {

static const Register layer_normalization{{
    .name = "layer_normalization",
    .doc = "(x - mean) / sqrt(variance + epsilon) · scale + bias over the axes from `axis` on.",
    .operands = {{"x", kFloats}, {"scale", kFloats}, {"bias", kFloats, Arity::optional}},
    .attributes = {{"axis", -1},
                   {"epsilon", Attribute(1e-5)},
                   {"stash_type", Attribute(ElementType::f32)}},
    .results = 3,
    .infer =
        [](Infer& c) {
          const int axis = c.axis("axis", c.rank(0));
          require_broadcast(c, {1, 2});
          c.result(c.element(0), c.dims(0));
          c.result(c.element_type("stash_type"), reduced_from(c, 0, axis));
          c.result(c.element_type("stash_type"), reduced_from(c, 0, axis));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto axes = axis_range(e.axis("axis", e.rank(0)), e.rank(0));
          const Normalized n = normalize(b, widen(b, e.operand(0)), axes, e.number("epsilon"));
          const ElementType type = n.value->type().element;
          Value* y = b(ops::mul, {n.value, b.cast(e.operand(1), type)});
          if (e.has(2)) y = b(ops::add, {y, b.cast(e.operand(2), type)});
          conclude(e, y);
          conclude(e, n.mean);
          conclude(e, n.inverse);
        },
    .tokens = tokens_before_axis_attribute,
}};

}  // namespace lathe
