// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_mean{{
    .name = "reduce_mean",
    .doc =
        "The mean over the given axes; integers truncate. An empty mean is NaN, or 0 for integers.",
    .operands = reduce_operands(kNumeric),
    .attributes = reduce_attributes(),
    .on_host = {1},
    .infer = [](Infer& c) { infer_reduce(c); },
    .eval =
        [](Evaluation& c) {
          eval_reduce(c, [](const auto& group) {
            using T = typename std::remove_cvref_t<decltype(group)>::Element;
            Accumulator<T> sum = 0;
            group.each([&](T x) { sum += static_cast<Accumulator<T>>(x); });
            if constexpr (std::is_floating_point_v<T>) {
              return sum / static_cast<double>(group.count());
            } else {
              using Wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
              const auto count = static_cast<Wide>(group.count());
              return count == 0 ? Wide{0} : static_cast<Wide>(sum) / count;
            }
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
