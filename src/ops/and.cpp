// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register and_op{{
    .name = "and",
    .doc = "Logical and.",
    .operands = {{"a", kBoolean, Arity::one, 'T'}, {"b", kBoolean, Arity::one, 'T'}},
    .traits = kCommutative,
    .formula = [](const Formula& f) { return f.x(0) && f.x(1); },
}};

}  // namespace lathe
