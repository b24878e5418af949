// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register acos_op{{
    .name = "acos",
    .doc = "Arc cosine in radians.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return acos(f.x(0)); },
}};

}  // namespace lathe
