// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register acosh_op{{
    .name = "acosh",
    .doc = "Inverse hyperbolic cosine.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return acosh(f.x(0)); },
}};

}  // namespace lathe
