// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register prelu_op{{
    .name = "prelu",
    .doc = "x, or slope * x where x < 0.",
    .operands = {{"x", kNumeric, Arity::one, 'T'}, {"slope", kNumeric, Arity::one, 'T'}},
    .formula = [](const Formula& f) { return select(f.x(0) < 0, f.x(0) * f.x(1), f.x(0)); },
}};

}  // namespace lathe
