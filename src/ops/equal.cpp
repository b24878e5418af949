// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register equal_op{{
    .name = "equal",
    .doc = "a = b.",
    .operands = {{"a", kNumeric | kBoolean, Arity::one, 'T'},
                 {"b", kNumeric | kBoolean, Arity::one, 'T'}},
    .traits = kCommutative,
    .result_element = ElementType::boolean,
    .dim_formula = [](std::span<const Dim> x) -> std::optional<Dim> {
      const Ternary same = equal(x[0], x[1]);
      return same == Ternary::unknown ? std::nullopt : std::optional<Dim>(same == Ternary::yes);
    },
    .formula = [](const Formula& f) { return f.x(0) == f.x(1); },
}};

}  // namespace lathe
