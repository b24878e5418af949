// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register erf_op{{
    .name = "erf",
    .doc = "Error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return erf(f.x(0)); },
}};

}  // namespace lathe
