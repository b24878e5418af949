// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/support/convolution.h"
#include "ops/support/quantization.h"

namespace lathe {
static const Register qlinear_conv{{
    .name = "qlinear_conv",
    .doc = "Convolution of quantised operands with an exact accumulator, requantised in f32.",
    .operands = qlinear_product_operands({"x", "x_scale", "x_zero_point", "w", "w_scale",
                                          "w_zero_point", "y_scale", "y_zero_point"}),
    .attributes = window_attributes({{"group", 1}}),
    .infer = [](Infer& c) { c.result(c.element(7), convolution_dims(c, 0, 3)); },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto column = [&](Value* v) {
            return v->type().rank() == 1 ? as_column(b, v, e.rank(0) - 2) : v;
          };
          const auto scale = [&](int i) { return column(b.cast(e.operand(i), ElementType::f32)); };
          Value* x_zero = b.reshape(e.operand(2), {});
          Value* y = b(ops::conv_integer, {e.operand(0), e.operand(3), x_zero, e.operand(5)},
                       e.instruction().attributes());
          if (e.has(8)) y = b(ops::add, {y, column(e.operand(8))});
          Value* factor = b(ops::div, {b(ops::mul, {scale(1), scale(4)}), scale(6)});
          conclude(e,
                   quantise(b, b(ops::mul, {b.cast(y, ElementType::f32), factor}), e.operand(7)));
        },
}};

}  // namespace lathe
