// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_sum{{
    .name = "reduce_sum",
    .doc = "The sum over the given axes; 0 if empty.",
    .operands = reduce_operands(kNumeric),
    .attributes = reduce_attributes(),
    .on_host = {1},
    .infer = [](Infer& c) { infer_reduce(c, [](const Dim& a, const Dim& b) { return a + b; }); },
    .eval =
        [](Evaluation& c) {
          eval_reduce(c, [](const auto& group) {
            using T = typename std::remove_cvref_t<decltype(group)>::Element;
            Accumulator<T> sum = 0;
            group.each([&](T x) { sum += static_cast<Accumulator<T>>(x); });
            return sum;
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
