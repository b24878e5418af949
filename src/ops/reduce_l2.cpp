// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_l2{{
    .name = "reduce_l2",
    .doc = "The square root of the sum of squares over the given axes.",
    .operands = reduce_operands(kNumeric),
    .attributes = reduce_attributes(),
    .on_host = {1},
    .infer = [](Infer& c) { infer_reduce(c); },
    .eval =
        [](Evaluation& c) {
          eval_reduce(c, [](const auto& group) {
            using T = typename std::remove_cvref_t<decltype(group)>::Element;
            double sum = 0;
            group.each([&](T x) { sum += static_cast<double>(x) * static_cast<double>(x); });
            return std::sqrt(sum);
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
