// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register log_op{{
    .name = "log",
    .doc = "Natural logarithm.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return log(f.x(0)); },
}};

}  // namespace lathe
