// SPDX-License-Identifier: MIT
#include "ir/ops.h"
#include "ops/support/composite.h"

namespace lathe {

static const Register dynamic_quantize_linear{{
    .name = "dynamic_quantize_linear",
    .doc = "Quantises x to u8, with scale and zero point from its range, widened to include 0.",
    .operands = {{"x", types(ElementType::f32)}},
    .results = 3,
    .infer =
        [](Infer& c) {
          c.result(ElementType::u8, c.dims(0));
          c.result(ElementType::f32, {});
          c.result(ElementType::u8, {});
        },
    .expand =
        [](Expansion& e) {
          Builder& b = e.b;
          const ElementType type = e.element(0);
          Value* zero = b.scalar(type, 0);
          const auto extreme = [&](const Op& reduction, const Op& op) {
            const auto axes = axis_range(0, e.rank(0));
            return b(op, {b.reshape(reduce(b, reduction, e.operand(0), axes), {}), zero});
          };
          Value* least = extreme(ops::reduce_min, ops::min);
          Value* scale = b(ops::div, {b(ops::sub, {extreme(ops::reduce_max, ops::max), least}),
                                      b.scalar(type, 255)});
          // If all elements are zero, any scale is valid.
          scale = b(ops::where, {b(ops::equal, {scale, zero}), b.scalar(type, 1), scale});
          Value* offset = b(ops::round, {b(ops::sub, {zero, b(ops::div, {least, scale})})});
          offset = b(ops::max, {b(ops::min, {offset, b.scalar(type, 255)}), zero});
          Value* zero_point = b.cast(offset, ElementType::u8);
          conclude(e, b(ops::quantize_linear, {e.operand(0), scale, zero_point}));
          conclude(e, scale);
          conclude(e, zero_point);
        },
}};

}  // namespace lathe
