// SPDX-License-Identifier: MIT
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
            return reduce(b, "reduce_mean", of, e.integers("axes"));
          };
          Value* centre = mean(x);
          Value* variance = b("sub", {mean(b("mul", {x, x})), b("mul", {centre, centre})});
          Value* deviation = b("sqrt", {variance});
          Value* floor = b.scalar(x->type().element, 1e-9);
          conclude(e, b("div", {b("sub", {x, centre}), b("add", {deviation, floor})}));
        },
}};

}  // namespace lathe
