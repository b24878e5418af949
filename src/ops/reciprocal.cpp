// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register reciprocal_op{{
    .name = "reciprocal",
    .doc = "1 / x.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return 1 / f.x(0); },
}};

}  // namespace lathe
