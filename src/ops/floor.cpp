// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register floor_op{{
    .name = "floor",
    .doc = "The largest integer not above x.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return floor(f.x(0)); },
}};

}  // namespace lathe
