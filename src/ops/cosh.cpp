// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register cosh_op{{
    .name = "cosh",
    .doc = "Hyperbolic cosine.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return cosh(f.x(0)); },
}};

}  // namespace lathe
