// SPDX-License-Identifier: MIT
// Weights in the format of matmul_n_bits. Floats are quantised to 8 bits with zero point 128, one
// scale per column and block along k; codes beyond k are zero. Rows of GGUF blocks keep their codes
// (block_format.h).
#include <cmath>

#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/block_format.h"
#include "ops/support/dense_operand.h"
#include "ops/support/quantization.h"
#include "ops/support/views.h"
#include "tensor/convert.h"

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

const BlockFormat* format_of(const std::string& type) {
  return type.empty() ? nullptr : find_block_format(type);
}

// u8 [n, bytes] of a GGUF type.
void infer_blocks(Infer& c) {
  const std::string& type = c.text("type");
  const BlockFormat* format = format_of(type);
  c.check(format != nullptr, "type is '{}', expected a block type of GGUF", escape(type));
  const auto bytes = c.dim(0, 1).constant();
  c.check(bytes && *bytes % format->bytes == 0,
          "rows have {} bytes, expected a multiple of {} for {}", c.dim(0, 1).to_string(),
          format->bytes, format->name);
  const int64_t columns = *bytes / format->bytes * format->elements;
  const SplitForm form(*format);
  const Dim groups(columns / format->group);
  c.result(ElementType::u8, {c.dim(0, 0), groups, Dim(format->group * form.bits / 8)});
  c.result(form.scale_type, {c.dim(0, 0), groups});
  c.result(ElementType::f32, {c.dim(0, 0), format->has_minimum ? groups : Dim(0)});
}

void infer_quantize_blocks(Infer& c) {
  c.check(c.rank(0) == 2, "the weights have rank {}, expected 2", c.rank(0));
  if (c.element(0) == ElementType::u8) return infer_blocks(c);
  const int64_t block = c.integer("block_size");
  c.check(block >= 16 && block <= 256 && (block & (block - 1)) == 0,
          "block_size is {}, expected a power of two from 16 to 256", block);
  const bool transposed = c.boolean("transposed");
  const Dim n = c.dim(0, transposed ? 0 : 1);
  const Dim blocks = Dim::ceil_div(c.dim(0, transposed ? 1 : 0), block);
  c.result(ElementType::u8, {n, blocks, Dim(block)});
  c.result(ElementType::f32, {n, blocks});
  c.result(ElementType::f32, {n, Dim(0)});
}

void split_stored(Evaluation& c) {
  const BlockFormat& format = *format_of(c.text("type"));
  const SplitForm form(format);
  const DenseOperand blocks(c.in(0));
  const int64_t rows = c.in(0).dims[0], row_bytes = c.in(0).dims[1];
  const int64_t of_row = row_bytes / format.bytes;
  const int64_t groups = of_row * format.elements / format.group;
  const int64_t code_bytes = of_row * format.elements * form.bits / 8;
  const Tensor codes(ElementType::u8, {rows, groups, format.group * form.bits / 8});
  const Tensor scales(form.scale_type, {rows, groups});
  const Tensor zeros(ElementType::f32, {rows, format.has_minimum ? groups : 0});
  parallel_for(c.pool, rows, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> row(static_cast<size_t>(groups));
    for (int64_t r = begin; r < end; ++r) {
      split_blocks(format, blocks.as<uint8_t>() + r * row_bytes, of_row,
                   codes.as<uint8_t>() + r * code_bytes, row.data(),
                   format.has_minimum ? zeros.as<float>() + r * groups : nullptr);
      convert(form.scale_type, scales.as<uint8_t>() + r * bytes_for(form.scale_type, groups),
              ElementType::f32, row.data(), groups);
    }
  });
  copy_elements(codes.view(), c.out(0));
  copy_elements(scales.view(), c.out(1));
  copy_elements(zeros.view(), c.out(2));
}

void evaluate_quantize_blocks(Evaluation& c) {
  if (c.in(0).type == ElementType::u8) return split_stored(c);
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
    .doc = "Weights as matmul_n_bits reads them: floats [k, n] quantised to 8 bits with zero point "
           "128 and a scale per block, or rows of blocks of a GGUF type with its codes, scales and "
           "zero points (none: no elements).",
    .operands = {{"weights", kFloats | types(ElementType::u8)}},
    .attributes = {{"block_size", 32}, {"transposed", Attribute(false)}, {"type", ""}},
    .results = 3,
    .infer = infer_quantize_blocks,
    .eval = evaluate_quantize_blocks,
}};

}  // namespace lathe
