// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register tan_op{{
    .name = "tan",
    .doc = "Tangent of radians.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return tan(f.x(0)); },
}};

}  // namespace lathe
