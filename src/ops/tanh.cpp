// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register tanh_op{{
    .name = "tanh",
    .doc = "Hyperbolic tangent.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return tanh(f.x(0)); },
}};

}  // namespace lathe
