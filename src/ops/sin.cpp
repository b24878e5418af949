// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register sin_op{{
    .name = "sin",
    .doc = "Sine of radians.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return sin(f.x(0)); },
}};

}  // namespace lathe
