// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register thresholded_relu_op{{
    .name = "thresholded_relu",
    .doc = "x where x > alpha, else 0.",
    .operands = {{"x", kFloats}},
    .attributes = {{"alpha", 1.0}},
    .formula = [](const Formula& f) { return select(f.x(0) > f.number("alpha"), f.x(0), 0); },
}};

}  // namespace lathe
