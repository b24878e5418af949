// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

static const Register identity{{
    .name = "identity",
    .doc = "The operand, unchanged.",
    .operands = {{.name = "x", .any_kind = true}},
    .traits = kTakesUnranked,
    .infer =
        [](Infer& c) {
          c.result(c.type(0));
          if (c.elements(0) != nullptr) c.result_elements(*c.elements(0));
        },
    .eval =
        [](Evaluation& c) {
          if (c.instruction().result()->type().is_tensor()) {
            copy_elements(c.in(0), c.out(0, c.in(0).extents()));
          } else {
            c.set_box(0, c.box(0));
          }
        },
    .view =
        [](ViewRequest& v) {
          v.result = v.operand;
          return true;
        },
}};

}  // namespace lathe
