// SPDX-License-Identifier: MIT
// i4 and u4 data has logical elements. u8 data and its zero points are packed: 8 / bits elements
// per byte along the last axis, low bits first.
#include <algorithm>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "ops/support/block_format.h"
#include "ops/support/convolution.h"
#include "ops/support/dense_operand.h"
#include "ops/support/indices.h"
#include "ops/support/views.h"
#include "ops/token_step.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr TypeSet kCodes = types(ElementType::i4, ElementType::u4, ElementType::u8);

// Logical elements per stored one along the last axis.
int64_t packing(ElementType type, int64_t bits) { return type == ElementType::u8 ? 8 / bits : 1; }

// Rows u8 [rows, bytes] of blocks of a GGUF type, without scales: f32.
void infer_block_rows(Infer& c) {
  const std::string& type = c.text("type");
  const BlockFormat* format = find_block_format(type);
  c.check(format != nullptr, "type is '{}', expected a block type of GGUF", escape(type));
  c.check(c.element(0) == ElementType::u8 && c.rank(0) == 2,
          "data is {} of rank {}, expected u8 of rank 2", to_string(c.element(0)), c.rank(0));
  const auto bytes = c.dim(0, 1).constant();
  c.check(bytes && *bytes % format->bytes == 0,
          "rows have {} bytes, expected a multiple of {} for {}", c.dim(0, 1).to_string(),
          format->bytes, format->name);
  std::vector<Dim> dims = c.dims(1);
  dims.push_back(Dim(*bytes / format->bytes * format->elements));
  c.result(ElementType::f32, std::move(dims));
}

void gather_block_rows(Evaluation& c) {
  const BlockFormat& format = *find_block_format(c.text("type"));
  const DenseOperand data(c.in(0));
  const int64_t rows = c.in(0).dims[0], row_bytes = c.in(0).dims[1];
  const int64_t columns = row_bytes / format.bytes * format.elements;
  const ScratchArray<int64_t> indices(c.in(1).count());
  load_values(c, 1, 0, indices);
  with_dense_result(c, [&](const TensorView& y) {
    float* to = y.as<float>();
    for (const int64_t index : indices) {
      c.check(index >= -rows && index < rows, "index {} is out of range for an axis of size {}",
              index, rows);
      const int64_t row = index < 0 ? index + rows : index;
      dequantise(format, data.as<uint8_t>() + row * row_bytes, columns, to);
      to += columns;
    }
  });
}

void infer_gather_block_quantized(Infer& c) {
  if (!c.has(2)) return infer_block_rows(c);
  const int64_t bits = c.integer("bits");
  const int64_t block = c.integer("block_size");
  c.check((bits == 2 || bits == 4 || bits == 8) && block > 0,
          "bits {} and block_size {}: expected 2, 4 or 8, and at least 1", bits, block);
  std::vector<Dim> data = c.dims(0);
  c.check(!data.empty() && c.rank(2) == c.rank(0), "data has rank {}, scales have rank {}",
          c.rank(0), c.rank(2));
  data.back() = data.back() * packing(c.element(0), bits);
  const auto gathered = static_cast<size_t>(c.axis("gather_axis", c.rank(0)));
  const auto blocked = static_cast<size_t>(c.axis("quantize_axis", c.rank(0)));
  c.check(c.element(0) != ElementType::u8 || gathered + 1 < data.size() || bits == 8,
          "gather_axis {} is the packed axis", gathered);
  for (size_t i = 0; i < data.size(); ++i) {
    const Dim expected = i == blocked ? Dim::ceil_div(data[i], block) : data[i];
    c.require_equal(c.dims(2)[i], expected, fmt::format("size of scales' axis {}", i));
  }
  std::vector<Dim> dims(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(gathered));
  dims.insert(dims.end(), c.dims(1).begin(), c.dims(1).end());
  dims.insert(dims.end(), data.begin() + static_cast<std::ptrdiff_t>(gathered) + 1, data.end());
  c.result(c.element(2), std::move(dims));
}

// Codes of a dense row-major tensor from element `first` on, which lie in one row of `width`; rows
// start at a byte boundary.
class Codes {
 public:
  Codes(const DenseOperand& tensor, int64_t bits, int64_t width, int64_t first)
      : type_(tensor.type()), data_(tensor.data()), bits_(bits), first_(first) {
    if (type_ != ElementType::u8) return;
    data_ = tensor.as<uint8_t>() + first / width * ((width * bits + 7) / 8);
    first_ = first % width;
  }
  int64_t operator[](int64_t i) const {
    if (type_ != ElementType::u8) return load_int(type_, data_, first_ + i);
    const int64_t at = (first_ + i) * bits_;
    return static_cast<const uint8_t*>(data_)[at / 8] >> (at % 8) & ((1 << bits_) - 1);
  }

 private:
  ElementType type_;
  const void* data_;
  int64_t bits_;
  int64_t first_;
};

void evaluate_gather(Evaluation& c) {
  if (!c.has(2)) return gather_block_rows(c);
  const int64_t bits = c.in(0).type == ElementType::u8 ? c.integer("bits") : 4;
  const DenseOperand data(c.in(0));
  const DenseOperand zeros = c.has(3) ? DenseOperand(c.in(3)) : DenseOperand();
  // Scales may be many: only those in use are converted to f32.
  const DenseOperand scales(c.in(2));
  const ScratchArray<int64_t> indices(c.in(1).count());
  load_values(c, 1, 0, indices);
  const auto rank = static_cast<size_t>(data.rank());
  std::array<int64_t, kMaxRank> dims = data.view().dims;
  dims[rank - 1] *= packing(data.type(), bits);
  const int64_t width = dims[rank - 1];
  const int64_t block = c.integer("block_size");
  const auto gathered = static_cast<size_t>(c.axis("gather_axis", data.rank()));
  const auto blocked = static_cast<size_t>(c.axis("quantize_axis", data.rank()));
  const auto strides = dense_view(data.type(), {dims.data(), rank}, nullptr).strides;
  std::array<int64_t, kMaxRank> scale_dims = dims;
  scale_dims[blocked] = (dims[blocked] + block - 1) / block;
  const auto scale_strides = dense_view(data.type(), {scale_dims.data(), rank}, nullptr).strides;
  const int64_t plain = c.in(0).type == ElementType::u8 ? int64_t{1} << (bits - 1) : 0;
  for (const int64_t index : indices) {
    c.check(index >= -dims[gathered] && index < dims[gathered],
            "index {} is out of range for an axis of size {}", index, dims[gathered]);
  }
  const int64_t inner = strides[gathered];
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t rows = count == 0 || inner == 0 ? 0 : c.out().count() / inner;
  with_dense_result(c, [&](const TensorView& y) {
    parallel_for(c.pool, rows, 1, [&](int64_t begin, int64_t end) {
      const ScratchArray<float> values(inner);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t index = indices[static_cast<size_t>(row % count)];
        const int64_t from =
            (row / count * dims[gathered] + (index < 0 ? index + dims[gathered] : index)) * inner;
        for (int64_t i = 0, next = 0; i < inner;) {
          int64_t scale_at = 0;
          for (size_t axis = 0; axis < rank; ++axis) {
            const int64_t position = (from + i) / strides[axis] % dims[axis];
            scale_at += (axis == blocked ? position / block : position) * scale_strides[axis];
          }
          const int64_t column = (from + i) % width;
          next += blocked + 1 < rank
                      ? 1
                      : std::min({block - column % block, width - column, inner - i});
          const int64_t zero =
              c.has(3) ? Codes(zeros, bits, scale_dims[rank - 1], scale_at)[0] : plain;
          const auto scale =
              static_cast<float>(load_double(scales.type(), scales.data(), scale_at));
          const Codes codes(data, bits, width, from + i);
          for (const int64_t first = i; i < next; ++i) {
            values[static_cast<size_t>(i)] = static_cast<float>(codes[i - first] - zero) * scale;
          }
        }
        convert(y.type, y.as<std::byte>() + row * inner * info(y.type).bits / 8, ElementType::f32,
                values.data(), inner);
      }
    });
  });
}

}  // namespace

static const Register gather_block_quantized{{
    .name = "gather_block_quantized",
    .doc = "Slices of block-quantised data at the indices, dequantised; without scales, rows of "
           "blocks of a GGUF type.",
    .operands = {{"data", kCodes, Arity::one, 'T'},
                 {"indices", kIndices},
                 {"scales", kFloats, Arity::optional},
                 {"zero_points", kCodes, Arity::optional, 'T'}},
    .attributes =
        {{"bits", 4}, {"block_size", 128}, {"gather_axis", 0}, {"quantize_axis", 1}, {"type", ""}},
    .infer = infer_gather_block_quantized,
    .eval = evaluate_gather,
    .tokens = [](const TokenStep& s) { return gathered_tokens(s, "gather_axis"); },
}};

}  // namespace lathe
