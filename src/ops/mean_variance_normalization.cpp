// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"

namespace lathe {

static const Register mean_variance_normalization{{
    .name = "mean_variance_normalization",
    .doc = "(x - mean) / (sqrt(mean of (x - mean)²) + 1e-9) over the axes.",
    .operands = {{"x", kFloats}},
    .attributes = {{"axes", Integers{0, 2, 3}}},
    .infer =
        [](Infer& c) {
          c.axes("axes", c.rank(0));
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          Value* x = widen(b, e.operand(0));
          const auto mean = [&](Value* of) {
            return reduce(b, ops::reduce_mean, of, e.integers("axes"));
          };
          // The standard's mean of squares - mean² is below 0 by rounding where x hardly varies.
          Value* centred = b(ops::sub, {x, mean(x)});
          Value* deviation = b(ops::sqrt, {mean(b(ops::mul, {centred, centred}))});
          Value* floor = b.scalar(x->type().element, 1e-9);
          conclude(e, b(ops::div, {centred, b(ops::add, {deviation, floor})}));
        },
}};

}  // namespace lathe
