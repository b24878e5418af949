// SPDX-License-Identifier: MIT
#include "ops/support/convolution.h"

namespace lathe {

static const Register conv_integer{{
    .name = "conv_integer",
    .doc = "Convolution of 8-bit integers minus their zero points, accumulated in i32.",
    .operands = {{"x", types(ElementType::i8, ElementType::u8)},
                 {"w", types(ElementType::i8, ElementType::u8)},
                 {"x_zero_point", types(ElementType::i8, ElementType::u8), Arity::optional},
                 {"w_zero_point", types(ElementType::i8, ElementType::u8), Arity::optional}},
    .attributes = window_attributes({{"group", 1}}),
    .infer = [](Infer& c) { c.result(ElementType::i32, convolution_dims(c, 0, 1)); },
    .eval =
        [](Evaluation& c) {
          const auto x_zero = c.has(2) ? c.values(2) : std::vector<int64_t>{0};
          const auto w_zero = c.has(3) ? c.values(3) : std::vector<int64_t>{0};
          const auto channels = static_cast<size_t>(c.in(1).dims[0]);
          c.check(x_zero.size() == 1 && (w_zero.size() == 1 || w_zero.size() == channels),
                  "zero points have {} and {} elements, expected 1 and 1 or {}", x_zero.size(),
                  w_zero.size(), channels);
          run_convolution<uint32_t>(c, [&](Convolution<uint32_t>& product) {
            product.x_zero = static_cast<uint32_t>(x_zero[0]);
            for (size_t i = 0; i < channels; ++i) {
              product.w_zero.push_back(static_cast<uint32_t>(w_zero[w_zero.size() > 1 ? i : 0]));
            }
          });
        },
}};

}  // namespace lathe
