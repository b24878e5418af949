// SPDX-License-Identifier: MIT
#include "ops/support/reduce.h"
#include "ops/token_step.h"

namespace lathe {

static const Register reduce_min{{
    .name = "reduce_min",
    .doc = "The smallest element over the given axes; NaN if any is NaN.",
    .operands = reduce_operands(kNumeric | kBoolean),
    .attributes = reduce_attributes(),
    .on_host = {1},
    .infer =
        [](Infer& c) {
          infer_reduce(c, [](const Dim& a, const Dim& b) { return Dim::min(a, b); });
        },
    .eval =
        [](Evaluation& c) {
          const bool boolean = c.in(0).type == ElementType::boolean;
          eval_reduce(c, [boolean](const auto& group) {
            using T = typename std::remove_cvref_t<decltype(group)>::Element;
            T best = boolean ? T{1} : std::numeric_limits<T>::max();
            if constexpr (std::is_floating_point_v<T>) {
              best = std::numeric_limits<T>::infinity();
            }
            group.each([&](T x) {
              if (x < best || x != x) best = x;
            });
            return best;
          });
        },
    .tokens = reduced_tokens,
}};

}  // namespace lathe
