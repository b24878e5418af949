// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"

namespace lathe {

static const Register mean_variance_normalization{{
    .name = "mean_variance_normalization",
    .doc = "(x - mean) / (sqrt(mean of squares - mean²) + 1e-9) over the axes.",
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
          Value* centre = mean(x);
          Value* variance = b(ops::sub, {mean(b(ops::mul, {x, x})), b(ops::mul, {centre, centre})});
          Value* deviation = b(ops::sqrt, {variance});
          Value* floor = b.scalar(x->type().element, 1e-9);
          conclude(e, b(ops::div, {b(ops::sub, {x, centre}), b(ops::add, {deviation, floor})}));
        },
}};

}  // namespace lathe
