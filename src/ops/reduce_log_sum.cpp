// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_log_sum{{
    .name = "reduce_log_sum",
    .doc = "The logarithm of the sum over the given axes.",
    .operands = reduce_operands(kNumeric),
    .attributes = reduce_attributes(),
    .on_host = {1},
    .infer = [](Infer& c) { infer_reduce(c); },
    .eval =
        [](Evaluation& c) {
          eval_reduce(c, [](const auto& group) {
            using T = typename std::remove_cvref_t<decltype(group)>::Element;
            double sum = 0;
            group.each([&](T x) { sum += static_cast<double>(x); });
            return std::log(sum);
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
