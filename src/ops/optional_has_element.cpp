// SPDX-License-Identifier: MIT
#include "ops/support/sequence.h"

namespace lathe {

static const Register optional_has_element{{
    .name = "optional_has_element",
    .doc = "True if an optional has a value, and for any other operand.",
    .operands = {{.name = "x", .arity = Arity::optional, .any_kind = true}},
    .traits = kTakesUnranked,
    .infer = [](Infer& c) { c.result(ElementType::boolean, {}); },
    .eval = [](Evaluation& c) { *c.out(0, {}).as<bool>() = c.has(0) && !c.box(0).empty(); },
}};

}  // namespace lathe
