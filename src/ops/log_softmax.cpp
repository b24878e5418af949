// SPDX-License-Identifier: MIT
#include "ops/support/composite.h"

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
          x = b("sub", {x, reduce(b, "reduce_max", x, axes)});
          Value* sum = reduce(b, "reduce_sum", b("exp", {x}), axes);
          conclude(e, b("sub", {x, b("log", {sum})}));
        },
}};

}  // namespace lathe
