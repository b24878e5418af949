// SPDX-License-Identifier: MIT
#include "ops/support/cumulative.h"

namespace lathe {
std::vector<AttributeSpec> cumulative_attributes() {
  return {{"exclusive", Attribute(false)}, {"reverse", Attribute(false)}};
}

static const Register cumsum{{
    .name = "cumsum",
    .doc = "Cumulative sum along an axis; without the element itself if exclusive, from "
           "the end if reverse.",
    .operands = {{"x", kNumeric}, {"axis", kIndices}},
    .attributes = cumulative_attributes(),
    .on_host = {1},
    .infer =
        [](Infer& c) {
          c.require_equal(element_count(c.dims(1)), 1, "number of axes");
          c.result(c.element(0), c.dims(0));
          const std::vector<Dim>* elements = c.elements(0);
          if (elements == nullptr || c.rank(0) != 1) return;
          if (c.boolean("exclusive") || c.boolean("reverse")) return;
          c.try_result_elements([&] {
            std::vector<Dim> sums = *elements;
            for (size_t i = 1; i < sums.size(); ++i) sums[i] = sums[i] + sums[i - 1];
            return sums;
          });
        },
    .eval = [](Evaluation& c) { eval_cumulative(c, 0, [](auto a, auto b) { return a + b; }); },
}};

}  // namespace lathe
