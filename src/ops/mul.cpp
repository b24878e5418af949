// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register mul_op{{
    .name = "mul",
    .doc = "a * b.",
    .operands = {{"a", kNumeric, Arity::one, 'T'}, {"b", kNumeric, Arity::one, 'T'}},
    .traits = kCommutative,
    .dim_formula = [](std::span<const Dim> x) -> std::optional<Dim> { return x[0] * x[1]; },
    .formula = [](const Formula& f) { return f.x(0) * f.x(1); },
}};

}  // namespace lathe
