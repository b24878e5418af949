// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_sum_square{{
    .name = "reduce_sum_square",
    .doc = "The sum of squares over the given axes.",
    .operands = reduce_operands(kNumeric),
    .attributes = reduce_attributes(),
    .on_host = {1},
    .infer = [](Infer& c) { infer_reduce(c); },
    .eval =
        [](Evaluation& c) {
          eval_reduce(c, [](const auto& group) {
            using T = typename std::remove_cvref_t<decltype(group)>::Element;
            Accumulator<T> sum = 0;
            group.each([&](T x) {
              const auto wide = static_cast<Accumulator<T>>(x);
              sum += wide * wide;
            });
            return sum;
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
