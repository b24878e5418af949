// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_log_sum_exp{{
    .name = "reduce_log_sum_exp",
    .doc = "The logarithm of the sum of exponentials over the given axes.",
    .operands = reduce_operands(kNumeric),
    .attributes = reduce_attributes(),
    .on_host = {1},
    .infer = [](Infer& c) { infer_reduce(c); },
    .eval =
        [](Evaluation& c) {
          eval_reduce(c, [](const auto& group) {
            using T = typename std::remove_cvref_t<decltype(group)>::Element;
            // exp(x - m) cannot overflow. An infinite m would make it NaN and is replaced by 0.
            double m = -std::numeric_limits<double>::infinity();
            group.each([&](T x) { m = std::max(m, static_cast<double>(x)); });
            if (std::isinf(m)) m = 0;
            double sum = 0;
            group.each([&](T x) { sum += std::exp(static_cast<double>(x) - m); });
            return std::log(sum) + m;
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
