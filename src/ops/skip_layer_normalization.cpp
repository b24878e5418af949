// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/token_step.h"

namespace lathe {

static const Register skip_layer_normalization{{
    .name = "skip_layer_normalization",
    .doc = "Layer normalisation of s = x + skip (+ bias), times gamma, plus beta; also its mean, "
           "factor, and s.",
    .operands = {{"x", kFloats},
                 {"skip", kFloats},
                 {"gamma", kFloats},
                 {"beta", kFloats, Arity::optional},
                 {"bias", kFloats, Arity::optional}},
    .attributes = {{"epsilon", Attribute(1e-12)}},
    .results = 4,
    .infer = infer_skip_normalization,
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          Value* sum = b(ops::add, {widen(b, e.operand(0)), widen(b, e.operand(1))});
          if (e.has(4)) sum = b(ops::add, {sum, widen(b, e.operand(4))});
          const std::vector<int64_t> axes = {e.rank(0) - 1};
          const Normalized n = normalize(b, sum, axes, e.number("epsilon"));
          Value* y = b(ops::mul, {n.value, widen(b, e.operand(2))});
          if (e.has(3)) y = b(ops::add, {y, widen(b, e.operand(3))});
          conclude(e, y);
          conclude(e, n.mean);
          conclude(e, n.inverse);
          conclude(e, sum);
        },
    .tokens = tokens_before_last_axis,
}};

}  // namespace lathe
