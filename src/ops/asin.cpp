// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register asin_op{{
    .name = "asin",
    .doc = "Arc sine in radians.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return asin(f.x(0)); },
}};

}  // namespace lathe
