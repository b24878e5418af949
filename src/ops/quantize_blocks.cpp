// SPDX-License-Identifier: MIT
// Weights in the format of matmul_n_bits. Floats are quantised per column and block along k, to 8
// bits with zero point 128 and an f32 scale, or to 4 bits with an f16 scale and, unless symmetric,
// a zero point (tensor/fit_block.h). Rows of GGUF blocks keep their codes (block_format.h).
#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/evaluation.h"
#include "ops/support/dense_operand.h"
#include "ops/support/views.h"
#include "ops/support/weight_columns.h"

namespace lathe {
namespace {

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
  const int64_t bits = c.integer("bits");
  c.check(bits == 4 || bits == 8, "bits is {}, expected 4 or 8", bits);
  const bool symmetric = c.boolean("symmetric");
  c.check(bits == 4 || !symmetric, "symmetric is true, which {} bits do not have", bits);
  const bool transposed = c.boolean("transposed");
  const Dim n = c.dim(0, transposed ? 0 : 1);
  const Dim blocks = Dim::ceil_div(c.dim(0, transposed ? 1 : 0), block);
  c.result(ElementType::u8, {n, blocks, Dim(block * bits / 8)});
  c.result(bits == 4 ? ElementType::f16 : ElementType::f32, {n, blocks});
  c.result(ElementType::f32, {n, bits == 4 && !symmetric ? blocks : Dim(0)});
}

void evaluate_quantize_blocks(Evaluation& c) {
  const DenseOperand weights(c.in(0));
  const WeightColumns columns = columns_of(c, weights.view());
  const ColumnForm& form = columns.form();
  const Tensor codes(ElementType::u8, {form.columns, form.blocks, form.block * form.bits / 8});
  const Tensor scales(form.scale_type, {form.columns, form.blocks});
  const Tensor zeros(ElementType::f32, {form.columns, form.has_zeros ? form.blocks : 0});
  parallel_for(c.pool, form.columns, kFitColumns, [&](int64_t begin, int64_t end) {
    columns.make(begin, end - begin, codes.as<uint8_t>() + begin * form.code_bytes(),
                 scales.as<uint8_t>() + begin * bytes_for(form.scale_type, form.blocks),
                 form.has_zeros ? zeros.as<float>() + begin * form.blocks : nullptr);
  });
  copy_elements(codes.view(), c.out(0));
  copy_elements(scales.view(), c.out(1));
  copy_elements(zeros.view(), c.out(2));
}

}  // namespace

static const Register quantize_blocks{{
    .name = "quantize_blocks",
    .doc = "Weights as matmul_n_bits reads them: floats [k, n] quantised per block, to 8 bits with "
           "zero point 128 or to 4 bits with an f16 scale and a zero point, or rows of blocks of a "
           "GGUF type with its codes, scales and zero points (none: no elements).",
    .operands = {{"weights", kFloats | types(ElementType::u8)}},
    .attributes = {{"block_size", 32},
                   {"bits", 8},
                   {"symmetric", Attribute(false)},
                   {"transposed", Attribute(false)},
                   {"type", ""}},
    .results = 3,
    .infer = infer_quantize_blocks,
    .eval = evaluate_quantize_blocks,
}};

}  // namespace lathe
