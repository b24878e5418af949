// SPDX-License-Identifier: MIT
#include "ops/support/cumulative.h"

namespace lathe {

static const Register cumprod{{
    .name = "cumprod",
    .doc =
        "Products of all elements up to each one along an axis; exclusive leaves out the element "
        "itself, reverse starts at the end.",
    .operands = {{"x", kNumeric}, {"axis", kIndices}},
    .attributes = cumulative_attributes(),
    .on_host = {1},
    .infer =
        [](Infer& c) {
          c.require_equal(element_count(c.dims(1)), 1, "number of axes");
          c.result(c.element(0), c.dims(0));
        },
    .eval = [](Evaluation& c) { eval_cumulative(c, 1, [](auto a, auto b) { return a * b; }); },
}};

}  // namespace lathe
