// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"
#include "ops/support/convolution.h"
#include "ops/support/quantization.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr int64_t kChunk = 4096;  // elements; starts at a byte boundary for every type

ElementType quantized_type(Infer& c) {
  if (c.has(2)) return c.element(2);
  return c.has_attribute("output_dtype") ? c.element_type("output_dtype") : ElementType::u8;
}

// Rounds half to even and saturates to the type's range.
void round_to_integers(ElementType type, const float* from, const int64_t* zero, int64_t count,
                       int64_t* to) {
  const bool is_signed = info(type).cls == ElementClass::signed_int;
  const int bits = info(type).bits - (is_signed ? 1 : 0);
  const auto most = static_cast<double>((int64_t{1} << bits) - 1);
  const double least = is_signed ? -most - 1 : 0;
  for (int64_t i = 0; i < count; ++i) {
    const double value =
        std::nearbyint(static_cast<double>(from[i])) + static_cast<double>(zero[i]);
    to[i] = std::isnan(value) ? 0 : static_cast<int64_t>(std::clamp(value, least, most));
  }
}

void evaluate_quantize(Evaluation& c) {
  const Tensor x = dense_tensor(c.in(0));
  const std::vector<float> scales = float_values(c.in(1));
  const bool integer = is_integer(c.out().type);
  const std::vector<int64_t> zeros = c.has(2) && integer ? c.values(2) : std::vector<int64_t>{};
  const ScaleLayout layout(c, c.in(0), c.in(1));
  const ConvertOptions options{.saturate = c.boolean("saturate")};
  with_dense_result(c, [&](const TensorView& y) {
    parallel_for(c.pool, x.count(), kChunk, [&](int64_t first, int64_t last) {
      std::array<float, kChunk> values;
      std::array<int64_t, kChunk> zero;
      std::array<int64_t, kChunk> rounded;
      for (int64_t begin = first; begin < last; begin += kChunk) {
        const int64_t count = std::min(kChunk, last - begin);
        convert(ElementType::f32, values.data(), x.type(),
                x.as<std::byte>() + begin * info(x.type()).bits / 8, count);
        for (int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(layout.at(begin + i));
          values[static_cast<size_t>(i)] /= scales[at];
          zero[static_cast<size_t>(i)] = zeros.empty() ? 0 : zeros[at];
        }
        void* to = y.as<std::byte>() + begin * info(y.type).bits / 8;
        if (integer) {
          round_to_integers(y.type, values.data(), zero.data(), count, rounded.data());
          convert(y.type, to, ElementType::i64, rounded.data(), count);
        } else {
          convert(y.type, to, ElementType::f32, values.data(), count, options);
        }
      }
    });
  });
}

}  // namespace

static const Register quantize_linear{{
    .name = "quantize_linear",
    .doc = "x / scale rounded half to even, plus the zero point, saturated to a narrow type.",
    .operands = {{"x", kFloats | types(ElementType::i32)},
                 {"scale", kFloats | kFloat8 | types(ElementType::i32)},
                 {"zero_point", kQuantized, Arity::optional}},
    .attributes = {{"axis", 1},
                   {"block_size", 0},
                   {"saturate", Attribute(true)},
                   {"output_dtype", AttributeKind::element_type, false},
                   {"precision", AttributeKind::element_type, false}},
    .infer =
        [](Infer& c) {
          check_quantization(c);
          const ElementType type = quantized_type(c);
          c.check((kQuantized & type_bit(type)) != 0, "output_dtype {} is not a quantised type",
                  to_string(type));
          c.result(type, c.dims(0));
        },
    .eval = evaluate_quantize,
}};

}  // namespace lathe
