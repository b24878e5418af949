// SPDX-License-Identifier: MIT
// Columns of a weight matrix as matmul_n_bits reads them: floats that are quantised per block, or
// rows of GGUF blocks, which keep their codes.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/op_origin.h"
#include "ops/support/block_format.h"
#include "tensor/compact_form.h"
#include "tensor/fit_block.h"
#include "tensor/tensor.h"

namespace lathe {

// What quantize_blocks makes of one column.
struct ColumnForm {
  int64_t columns = 0;  // n
  int64_t inputs = 0;   // k
  int64_t block = 0;    // inputs that share a scale
  int64_t blocks = 0;
  int bits = 0;
  ElementType scale_type = ElementType::f32;
  bool has_zeros = false;  // f32, per block
  bool symmetric = false;
  int64_t code_bytes() const { return blocks * block * bits / 8; }
};

class WeightColumns {
 public:
  // Rows of blocks.
  WeightColumns(const TensorView& blocks, const BlockFormat& format);
  // Floats [k, n], or [n, k] if transposed. 8 bits: zero point 128 and an f32 scale. 4 bits: an f16
  // scale, and a zero point unless it is symmetric; `fit` quantises.
  WeightColumns(const TensorView& floats, bool transposed, int64_t block, int bits, bool symmetric,
                FitBlock fit = fit_block);

  const ColumnForm& form() const { return form_; }
  // None: the form of make() is as small.
  const std::optional<CompactForm>& compact_form() const { return compact_; }
  const int8_t* levels() const { return format_ == nullptr ? nullptr : format_->levels; }
  // Makes `count` columns from `first` on: codes [count, code_bytes], scales and zeros [count,
  // blocks]. `zeros` may be null if there are none. Dense sources only.
  void make(int64_t first, int64_t count, uint8_t* codes, void* scales, float* zeros) const;
  // What all columns take in the compact form, which there is.
  int64_t compact_bytes() const;
  // Makes them in the compact form.
  void make_compact(int64_t first, int64_t count, const CompactColumns& to) const;

 private:
  void split_compact(int64_t column, int64_t at, const CompactColumns& to) const;
  void quantise_compact(int64_t first, int64_t count, const CompactColumns& to) const;
  // Calls use(block, codes [block][16], scales, minimums) for each block of `width` columns.
  template <class Use>
  void quantise_strip(int64_t first, int64_t width, std::vector<float>& strip,
                      const Use& use) const;
  void split(int64_t first, int64_t count, uint8_t* codes, void* scales, float* zeros) const;
  void quantise(int64_t first, int64_t count, uint8_t* codes, void* scales, float* zeros) const;

  TensorView source_;
  const BlockFormat* format_ = nullptr;  // null: floats
  bool transposed_ = false;
  FitBlock fit_ = fit_block;
  ColumnForm form_;
  std::optional<CompactForm> compact_;
};

// Those that a quantize_blocks makes of `weights`.
WeightColumns columns_of(const InstructionReader& quantize_blocks, const TensorView& weights,
                         FitBlock fit = fit_block);

}  // namespace lathe
