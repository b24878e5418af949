// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/token_step.h"

namespace lathe {

static const Register softmax{{
    .name = "softmax",
    .doc = "exp(x) divided by its sum along an axis.",
    .operands = {{"x", kFloats}},
    .attributes = {{"axis", -1}},
    .infer =
        [](Infer& c) {
          c.axis("axis", c.rank(0));
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const std::vector<int64_t> axes = {e.axis("axis", e.rank(0))};
          Value* x = widen(b, e.operand(0));
          Value* powers = b(ops::exp, {b(ops::sub, {x, reduce(b, ops::reduce_max, x, axes)})});
          conclude(e, b(ops::div, {powers, reduce(b, ops::reduce_sum, powers, axes)}));
        },
    .tokens = tokens_beside_axis_attribute,
}};

}  // namespace lathe
