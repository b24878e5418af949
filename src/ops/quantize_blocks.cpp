// SPDX-License-Identifier: MIT
// Quantises float weights to the format of matmul_n_bits: 8 bits with zero point 128, one scale per
// column and block along k; codes beyond k are zero.
#include <cmath>

#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/quantization.h"

namespace lathe {
namespace {

constexpr int kZero = 128;

// code = 128 + round(w · (127 / max|w|)), scale = max|w| / 127.
float quantise_block(const float* values, int64_t count, uint8_t* codes) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  const float factor = largest > 0 ? 127 / largest : 0;
  for (int64_t i = 0; i < count; ++i) {
    const float code = std::nearbyint(values[i] * factor);
    codes[i] = static_cast<uint8_t>(kZero + (code >= -127 ? std::min(code, 127.0F) : -127));
  }
  return largest / 127;
}

void infer_quantize_blocks(Infer& c) {
  const int64_t block = c.integer("block_size");
  c.check(block >= 16 && block <= 256 && (block & (block - 1)) == 0,
          "block_size is {}, expected a power of two from 16 to 256", block);
  c.check(c.rank(0) == 2, "the weights have rank {}, expected 2", c.rank(0));
  const bool transposed = c.boolean("transposed");
  const Dim n = c.dim(0, transposed ? 0 : 1);
  const Dim blocks = Dim::ceil_div(c.dim(0, transposed ? 1 : 0), block);
  c.result(ElementType::u8, {n, blocks, Dim(block)});
  c.result(ElementType::f32, {n, blocks});
}

void evaluate_quantize_blocks(Evaluation& c) {
  const int64_t block = c.integer("block_size");
  const bool transposed = c.boolean("transposed");
  const Tensor weights = float_tensor(c.in(0));
  const int64_t n = weights.dims()[transposed ? 0 : 1], k = weights.dims()[transposed ? 1 : 0];
  const int64_t blocks = (k + block - 1) / block;
  const Tensor codes(ElementType::u8, {n, blocks, block});
  const Tensor scales(ElementType::f32, {n, blocks});
  constexpr int64_t kStrip = 16;  // columns read together, to use whole cache lines
  parallel_for(c.pool, n, kStrip, [&](int64_t begin, int64_t end) {
    std::vector<float> strip(static_cast<size_t>(kStrip * blocks * block));
    for (int64_t first = begin; first < end; first += kStrip) {
      const int64_t width = std::min(kStrip, end - first);
      for (int64_t i = 0; i < k; ++i) {
        for (int64_t j = 0; j < width; ++j) {
          const int64_t at = transposed ? (first + j) * k + i : i * n + first + j;
          strip[static_cast<size_t>(j * blocks * block + i)] = weights.as<float>()[at];
        }
      }
      for (int64_t at = 0; at < width * blocks; ++at) {
        const int64_t place = first * blocks + at;
        scales.as<float>()[place] =
            quantise_block(strip.data() + at * block, block, codes.as<uint8_t>() + place * block);
      }
    }
  });
  copy_elements(codes.view(), c.out(0));
  copy_elements(scales.view(), c.out(1));
}

}  // namespace

static const Register quantize_blocks{{
    .name = "quantize_blocks",
    .doc = "Quantises weights [k, n] to 8 bits with zero point 128 and a scale per block, as "
           "matmul_n_bits reads them.",
    .operands = {{"weights", kFloats}},
    .attributes = {{"block_size", 32}, {"transposed", Attribute(false)}},
    .results = 2,
    .infer = infer_quantize_blocks,
    .eval = evaluate_quantize_blocks,
}};

}  // namespace lathe
