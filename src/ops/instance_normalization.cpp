// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"

namespace lathe {

static const Register instance_normalization{{
    .name = "instance_normalization",
    .doc = "(x - mean) / sqrt(variance + epsilon) · scale + bias, statistics per plane [n, c].",
    .operands = {{"x", kFloats}, {"scale", kFloats}, {"bias", kFloats}},
    .attributes = {{"epsilon", Attribute(1e-5)}},
    .infer =
        [](Infer& c) {
          require_channels(c, {1, 2});
          c.result(c.element(0), c.dims(0));
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto axes = axis_range(2, e.rank(0));
          Value* x = normalize(b, widen(b, e.operand(0)), axes, e.number("epsilon")).value;
          const auto column = [&](int i) {
            return as_column(b, widen(b, e.operand(i)), e.rank(0) - 2);
          };
          conclude(e, b(ops::add, {b(ops::mul, {x, column(1)}), column(2)}));
        },
}};

}  // namespace lathe
