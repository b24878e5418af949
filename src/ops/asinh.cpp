// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register asinh_op{{
    .name = "asinh",
    .doc = "Inverse hyperbolic sine.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return asinh(f.x(0)); },
}};

}  // namespace lathe
