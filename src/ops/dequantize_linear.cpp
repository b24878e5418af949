// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"
#include "ops/support/convolution.h"
#include "ops/support/quantization.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr int64_t kChunk = 4096;  // elements; starts at a byte boundary for every type

void evaluate_dequantize(Evaluation& c) {
  const Tensor x = dense_tensor(c.in(0));
  const std::vector<float> scales = float_values(c.in(1));
  const bool integer = is_integer(x.type());
  const std::vector<int64_t> zeros = c.has(2) && integer ? c.values(2) : std::vector<int64_t>{};
  const ScaleLayout layout(c, c.in(0), c.in(1));
  with_dense_result(c, [&](const TensorView& y) {
    parallel_for(c.pool, x.count(), kChunk, [&](int64_t first, int64_t last) {
      std::array<int64_t, kChunk> integers;
      std::array<float, kChunk> values;
      for (int64_t begin = first; begin < last; begin += kChunk) {
        const int64_t count = std::min(kChunk, last - begin);
        const void* from = x.as<std::byte>() + begin * info(x.type()).bits / 8;
        if (integer) {
          convert(ElementType::i64, integers.data(), x.type(), from, count);
        } else {
          convert(ElementType::f32, values.data(), x.type(), from, count);
        }
        for (int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(layout.at(begin + i));
          float& value = values[static_cast<size_t>(i)];
          if (integer) {
            value = static_cast<float>(integers[static_cast<size_t>(i)] -
                                       (zeros.empty() ? 0 : zeros[at]));
          }
          value *= scales[at];
        }
        convert(y.type, y.as<std::byte>() + begin * info(y.type).bits / 8, ElementType::f32,
                values.data(), count);
      }
    });
  });
}

}  // namespace

static const Register dequantize_linear{{
    .name = "dequantize_linear",
    .doc = "(x - zero point) · scale.",
    .operands = {{"x", kQuantized, Arity::one, 'T'},
                 {"scale", kFloats | kFloat8},
                 {"zero_point", kQuantized, Arity::optional, 'T'}},
    .attributes = {{"axis", 1},
                   {"block_size", 0},
                   {"output_dtype", AttributeKind::element_type, false}},
    .infer =
        [](Infer& c) {
          check_quantization(c);
          c.result(c.has_attribute("output_dtype") ? c.element_type("output_dtype") : c.element(1),
                   c.dims(0));
        },
    .eval = evaluate_dequantize,
}};

}  // namespace lathe
