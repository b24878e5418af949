// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register atanh_op{{
    .name = "atanh",
    .doc = "Inverse hyperbolic tangent.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return atanh(f.x(0)); },
}};

}  // namespace lathe
