// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register atan_op{{
    .name = "atan",
    .doc = "Arc tangent in radians.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return atan(f.x(0)); },
}};

}  // namespace lathe
