// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register xor_op{{
    .name = "xor",
    .doc = "Logical exclusive or.",
    .operands = {{"a", kBoolean, Arity::one, 'T'}, {"b", kBoolean, Arity::one, 'T'}},
    .traits = kCommutative,
    .formula = [](const Formula& f) { return f.x(0) ^ f.x(1); },
}};

}  // namespace lathe
