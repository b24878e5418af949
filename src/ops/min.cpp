// SPDX-License-Identifier: MIT
#include "ir/op.h"

namespace lathe {

static const Register min_op{{
    .name = "min",
    .doc = "The smallest of the operands; NaN if one is.",
    .operands = {{"x", kNumeric, Arity::variadic, 'T'}},
    .dim_formula = [](std::span<const Dim> x) -> std::optional<Dim> {
      Dim y = x[0];
      for (const Dim& other : x.subspan(1)) y = Dim::min(y, other);
      return y;
    },
    .formula =
        [](const Formula& f) {
          Expr y = f.x(0);
          for (int i = 1; i < f.count(); ++i) y = min(y, f.x(i));
          return y;
        },
}};

}  // namespace lathe
