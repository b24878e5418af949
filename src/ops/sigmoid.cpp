// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register sigmoid_op{{
    .name = "sigmoid",
    .doc = "1 / (1 + exp(-x)).",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return sigmoid(f.x(0)); },
}};

}  // namespace lathe
