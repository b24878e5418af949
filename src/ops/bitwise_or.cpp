// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register bitwise_or_op{{
    .name = "bitwise_or",
    .doc = "Bitwise or.",
    .operands = {{"a", kIntegers, Arity::one, 'T'}, {"b", kIntegers, Arity::one, 'T'}},
    .traits = kCommutative,
    .formula = [](const Formula& f) { return f.x(0) | f.x(1); },
}};

}  // namespace lathe
