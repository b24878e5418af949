// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register ceil_op{{
    .name = "ceil",
    .doc = "The smallest integer not below x.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return ceil(f.x(0)); },
}};

}  // namespace lathe
