// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register cos_op{{
    .name = "cos",
    .doc = "Cosine of radians.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return cos(f.x(0)); },
}};

}  // namespace lathe
