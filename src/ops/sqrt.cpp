// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register sqrt_op{{
    .name = "sqrt",
    .doc = "Square root.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return sqrt(f.x(0)); },
}};

}  // namespace lathe
