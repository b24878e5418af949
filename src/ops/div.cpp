// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register div_op{{
    .name = "div",
    .doc = "a / b; integers truncate toward zero.",
    .operands = {{"a", kNumeric, Arity::one, 'T'}, {"b", kNumeric, Arity::one, 'T'}},
    .dim_formula = [](std::span<const Dim> x) -> std::optional<Dim> {
      if (x[0].range().min < 0 || x[1].range().min < 1) return std::nullopt;
      return Dim::floor_div(x[0], x[1]);
    },
    .formula = [](const Formula& f) { return f.x(0) / f.x(1); },
}};

}  // namespace lathe
