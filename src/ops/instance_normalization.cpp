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
          Dim size = 1;
          for (int axis = 2; axis < e.rank(0); ++axis) size = size * e.dim(0, axis);
          Value* x = b.reshape(widen(b, e.operand(0)), {e.dim(0, 0), e.dim(0, 1), size});
          const auto column = [&](int i) { return as_column(b, widen(b, e.operand(i)), 1); };
          Value* y = b(ops::layer_normalization, {x, column(1), column(2)},
                       {{"epsilon", e.number("epsilon")}});
          conclude(e, b.reshape(y, e.dims(0)));
        },
}};

}  // namespace lathe
