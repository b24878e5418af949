// SPDX-License-Identifier: MIT
#include <numeric>

#include "ir/op.h"

namespace lathe {

static const Register min_op{{
    .name = "min",
    .doc = "The smallest of the operands; NaN if any is NaN.",
    .operands = {{"x", kNumeric, Arity::variadic, 'T'}},
    .dim_formula = [](std::span<const Dim> x) -> std::optional<Dim> {
      return std::accumulate(x.begin() + 1, x.end(), x[0], Dim::min);
    },
    .formula = [](const Formula& f) { return f.fold([](Expr a, Expr b) { return min(a, b); }); },
}};

}  // namespace lathe
