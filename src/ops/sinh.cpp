// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register sinh_op{{
    .name = "sinh",
    .doc = "Hyperbolic sine.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return sinh(f.x(0)); },
}};

}  // namespace lathe
