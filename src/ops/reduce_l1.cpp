// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_l1{{
    .name = "reduce_l1",
    .doc = "The sum of magnitudes over the given axes.",
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
              if constexpr (std::is_floating_point_v<T>) {
                sum += std::abs(wide);
              } else {
                sum += x < T{0} ? 0 - wide : wide;
              }
            });
            return sum;
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
