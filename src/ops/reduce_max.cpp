// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_max{{
    .name = "reduce_max",
    .doc = "The greatest element over the given axes; NaN if any is NaN.",
    .operands = reduce_operands(kNumeric | kBoolean),
    .attributes = reduce_attributes(),
    .on_host = {1},
    .infer =
        [](Infer& c) {
          infer_reduce(c, [](const Dim& a, const Dim& b) { return Dim::max(a, b); });
        },
    .eval =
        [](Evaluation& c) {
          eval_reduce(c, [](const auto& group) {
            using T = typename std::remove_cvref_t<decltype(group)>::Element;
            T best = std::numeric_limits<T>::lowest();
            if constexpr (std::is_floating_point_v<T>) {
              best = -std::numeric_limits<T>::infinity();
            }
            group.each([&](T x) {
              if (x > best || x != x) best = x;
            });
            return best;
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
