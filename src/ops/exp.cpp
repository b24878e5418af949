// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register exp_op{{
    .name = "exp",
    .doc = "e^x.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return exp(f.x(0)); },
}};

}  // namespace lathe
