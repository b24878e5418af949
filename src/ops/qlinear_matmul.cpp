// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"
#include "ops/support/matmul.h"
#include "ops/support/quantization.h"

namespace lathe {

static const Register qlinear_matmul{{
    .name = "qlinear_matmul",
    .doc = "Matrix product of quantised operands with an exact sum, requantised in f32.",
    .operands = qlinear_product_operands({"a", "a_scale", "a_zero_point", "b", "b_scale",
                                          "b_zero_point", "y_scale", "y_zero_point"}),
    .infer =
        [](Infer& c) {
          const std::vector<Dim> dims = matmul_dims(c, 0, 3);
          require_product_scales(c, dims);
          if (c.has(8)) {
            c.check(c.rank(8) == 1 && c.rank(3) > 1, "bias has rank {}, b has rank {}", c.rank(8),
                    c.rank(3));
            c.require_equal(c.dim(8, 0), dims.back(), "sizes of bias and columns of b");
          }
          c.result(c.element(7), dims);
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto scale = [&](int i) { return b.cast(e.operand(i), ElementType::f32); };
          Value* sum =
              b(ops::matmul_integer, {e.operand(0), e.operand(3), e.operand(2), e.operand(5)});
          if (e.has(8)) sum = b(ops::add, {sum, e.operand(8)});
          Value* rows = scale(1);  // one, or one per row of a
          if (e.rank(1) == 1 && e.rank(0) > 1 && e.rank(3) > 1) rows = as_column(b, rows, 1);
          Value* factor = b(ops::div, {b(ops::mul, {rows, scale(4)}), scale(6)});
          conclude(e,
                   quantise(b, b(ops::mul, {b.cast(sum, ElementType::f32), factor}), e.operand(7)));
        },
}};

}  // namespace lathe
