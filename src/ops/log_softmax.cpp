// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/token_step.h"

namespace lathe {

static const Register log_softmax{{
    .name = "log_softmax",
    .doc = "The logarithm of softmax along an axis.",
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
          x = b(ops::sub, {x, reduce(b, ops::reduce_max, x, axes)});
          Value* sum = reduce(b, ops::reduce_sum, b(ops::exp, {x}), axes);
          conclude(e, b(ops::sub, {x, b(ops::log, {sum})}));
        },
    .tokens = tokens_beside_axis_attribute,
}};

}  // namespace lathe
