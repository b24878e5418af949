// SPDX-License-Identifier: MIT
#include "ops/composite.h"
#include "ops/matmul.h"

namespace lathe {
namespace {

constexpr TypeSet kBytes = types(ElementType::i8, ElementType::u8);

// A scale or zero point per row of a, as a column.
Value* per_row(Builder& b, Value* x) { return x->type().rank() == 1 ? as_column(b, x, 1) : x; }

}  // namespace

static const Register qlinear_matmul{{
    .name = "qlinear_matmul",
    .doc = "The matrix product of quantised operands, quantised: an exact sum, one product in f32.",
    .operands = {{"a", kBytes},
                 {"a_scale", kFloats},
                 {"a_zero_point", kBytes},
                 {"b", kBytes},
                 {"b_scale", kFloats},
                 {"b_zero_point", kBytes},
                 {"y_scale", kFloats},
                 {"y_zero_point", kBytes}},
    .infer = [](Infer& c) { c.result(c.element(7), matmul_dims(c, 0, 3)); },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const auto wide = [&](int i) { return b.cast(e.operand(i), ElementType::f32); };
          Value* sum =
              b("matmul_integer", {e.operand(0), e.operand(3), e.operand(2), e.operand(5)});
          const bool rows = e.rank(0) > 1 && e.rank(3) > 1;
          Value* a_scale = rows ? per_row(b, wide(1)) : wide(1);
          Value* scale = b("div", {b("mul", {a_scale, wide(4)}), wide(6)});
          Value* y = b("mul", {b.cast(sum, ElementType::f32), scale});
          Value* one = b.scalar(ElementType::f32, 1);
          conclude(e, b("quantize_linear", {y, one, b.reshape(e.operand(7), {})}));
        },
}};

}  // namespace lathe
