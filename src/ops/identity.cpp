// SPDX-License-Identifier: MIT
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/index_map.h"

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
    .map = [](auto& m) { m.read(0, m.indices()); },
    .view = affine_view,
}};

}  // namespace lathe
