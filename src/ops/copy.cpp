// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

static const Register copy{{
    .name = "copy",
    .doc = "x in the memory of the instruction's target.",
    .operands = {{"x"}},
    .infer =
        [](Infer& c) {
          c.result(c.type(0));
          if (c.elements(0) != nullptr) c.result_elements(*c.elements(0));
        },
    .eval = [](Evaluation& c) { copy_elements(c.in(0), c.out()); },
}};

}  // namespace lathe
