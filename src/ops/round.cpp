// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register round_op{{
    .name = "round",
    .doc = "The nearest integer; halves round to even.",
    .operands = {{"x", kFloats}},
    .formula = [](const Formula& f) { return round_even(f.x(0)); },
}};

}  // namespace lathe
