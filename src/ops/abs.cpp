// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register abs_op{{
    .name = "abs",
    .doc = "|x|.",
    .operands = {{"x", kNumeric}},
    .formula = [](const Formula& f) { return abs(f.x(0)); },
}};

}  // namespace lathe
