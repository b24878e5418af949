// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register neg_op{{
    .name = "neg",
    .doc = "-x.",
    .operands = {{"x", kFloats | kSigned}},
    .dim_formula = [](std::span<const Dim> x) -> std::optional<Dim> { return Dim(0) - x[0]; },
    .formula = [](const Formula& f) { return -f.x(0); },
}};

}  // namespace lathe
