// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register optional_get_element{{
    .name = "optional_get_element",
    .doc = "The value of an optional; returns any other operand unchanged.",
    .operands = {{.name = "x", .any_kind = true}},
    .traits = kTakesUnranked,
    .infer =
        [](Infer& c) {
          const bool holds = c.type(0).kind == Type::Kind::optional;
          c.result(holds ? *c.type(0).item : c.type(0));
        },
    .eval =
        [](Evaluation& c) {
          const Box& value = c.box(0);
          c.check(!value.empty(), "the optional {} is empty",
                  c.instruction().operands()[0]->type().to_string());
          set_result(c, value);
        },
}};

}  // namespace lathe
