// SPDX-License-Identifier: MIT
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
          const auto extreme = [&](std::string_view reduction, std::string_view op) {
            const auto axes = axis_range(0, e.rank(0));
            return b(op, {b.reshape(reduce(b, reduction, e.operand(0), axes), {}), zero});
          };
          Value* least = extreme("reduce_min", "min");
          Value* scale =
              b("div", {b("sub", {extreme("reduce_max", "max"), least}), b.scalar(type, 255)});
          // If all elements are zero, any scale is valid.
          scale = b("where", {b("equal", {scale, zero}), b.scalar(type, 1), scale});
          Value* offset = b("round", {b("sub", {zero, b("div", {least, scale})})});
          offset = b("max", {b("min", {offset, b.scalar(type, 255)}), zero});
          Value* zero_point = b.cast(offset, ElementType::u8);
          conclude(e, b("quantize_linear", {e.operand(0), scale, zero_point}));
          conclude(e, scale);
          conclude(e, zero_point);
        },
}};

}  // namespace lathe
