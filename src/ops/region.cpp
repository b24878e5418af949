// SPDX-License-Identifier: MIT
#include "ir/builder.h"
#include "ir/infer.h"
#include "ops/support/control_flow.h"

namespace lathe {

static const Register region_op{{
    .name = "region",
    .doc = "Instructions that a target runs as one kernel; the body is their meaning.",
    .operands = {{.name = "captured", .arity = Arity::variadic}},
    .results = -1,
    .bodies = {"body"},
    .infer =
        [](Infer& c) {
          for (const Value* result : c.body(0).results()) c.result(result->type());
        },
    .capture = [](const Instruction&, int, int parameter) { return parameter; },
    .bind_bodies =
        [](Instruction& instruction) {
          bind_captures(instruction, 0);
          infer(*instruction.bodies()[0]);
        },
    .expand =
        [](Expansion& e) {
          const Instruction& region = e.instruction();
          for (Value* result : inline_body(e.b, *region.bodies()[0], region.operands())) {
            e.result(result);
          }
        },
}};

}  // namespace lathe
