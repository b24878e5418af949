// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

static const Register size{{
    .name = "size",
    .doc = "The number of elements, as an i64 scalar.",
    .operands = {{"x"}},
    .traits = kTakesUnranked,
    .infer =
        [](Infer& c) {
          c.result(ElementType::i64, {});
          if (c.type(0).is_ranked()) c.result_elements({element_count(c.dims(0))});
        },
    .eval = [](Evaluation& c) { *c.out(0, {}).as<int64_t>() = c.in(0).count(); },
}};

}  // namespace lathe
