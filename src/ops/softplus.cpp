// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register softplus_op{{
    .name = "softplus",
    .doc = "log(1 + exp(x)).",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return softplus(f.x(0)); },
}};

}  // namespace lathe
