// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register bitwise_not_op{{
    .name = "bitwise_not",
    .doc = "Bitwise negation.",
    .operands = {{"x", kIntegers}},
    .formula = [](const Formula& f) { return ~f.x(0); },
}};

}  // namespace lathe
