// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register not_op{{
    .name = "not",
    .doc = "Logical negation.",
    .operands = {{"x", kBoolean}},
    .formula = [](const Formula& f) { return !f.x(0); },
}};

}  // namespace lathe
