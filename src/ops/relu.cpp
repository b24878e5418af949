// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register relu_op{{
    .name = "relu",
    .doc = "max(x, 0).",
    .operands = {{"x", kNumeric}},
    .formula = [](const Formula& f) { return max(f.x(0), 0); },
}};

}  // namespace lathe
