// SPDX-License-Identifier: MIT
#include "ir/op.h"
#include "ops/math.h"

namespace lathe {

static const Register mod_op{{
    .name = "mod",
    .doc = "Remainder of floored division, or of truncated division with fmod.",
    .operands = {{"a", kNumeric, Arity::one, 'T'}, {"b", kNumeric, Arity::one, 'T'}},
    .attributes = {{"fmod", false}},
    .dim_formula = [](std::span<const Dim> x) -> std::optional<Dim> {
      if (x[0].range().min < 0 || x[1].range().min < 1) return std::nullopt;
      return Dim::mod(x[0], x[1]);
    },
    .formula = [](const Formula& f) -> Expr {
      return f.boolean("fmod") ? fmod(f.x(0), f.x(1)) : mod(f.x(0), f.x(1));
    },
}};

}  // namespace lathe
