// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register where_op{{
    .name = "where",
    .doc = "a where the condition is true, else b.",
    .operands = {{"condition", kBoolean},
                 {"a", kNumeric | kBoolean, Arity::one, 'T'},
                 {"b", kNumeric | kBoolean, Arity::one, 'T'}},
    .result_like = 1,
    .dim_formula = [](std::span<const Dim> x) -> std::optional<Dim> {
      return x[0].is_constant() ? std::optional(x[0] == 0 ? x[2] : x[1]) : std::nullopt;
    },
    .formula = [](const Formula& f) { return select(f.x(0), f.x(1), f.x(2)); },
}};

}  // namespace lathe
