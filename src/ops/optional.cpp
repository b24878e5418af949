// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register optional_op{{
    .name = "optional",
    .doc = "An optional that holds the operand, or an empty optional of a type.",
    .operands = {{.name = "x", .arity = Arity::optional, .any_kind = true}},
    .attributes = {{"type", AttributeKind::type, false}},
    .traits = kTakesUnranked,
    .infer =
        [](Infer& c) {
          c.check(c.has(0) || c.has_attribute("type"), "got {} operands and no type", c.count());
          c.result(Type::optional(
              c.has(0) ? c.type(0)
                       : std::get<Type>(*find_attribute(c.instruction().attributes(), "type"))));
        },
    .eval = [](Evaluation& c) { c.set_box(0, c.has(0) ? c.box(0) : Box{}); },
}};

}  // namespace lathe
