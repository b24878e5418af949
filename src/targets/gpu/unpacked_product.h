// SPDX-License-Identifier: MIT
// Products of many rows with weights of few bits: some columns' weights at a time are unpacked, for
// a product as of floats.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "targets/gpu/anchor.h"
#include "targets/gpu/gemm_problem.h"
#include "targets/gpu/plain_product.h"
#include "targets/gpu/rows_prologue.h"

namespace lathe::gpu {

// Weights [n, blocks, block] of `bits`.
struct PackedShape {
  int64_t n = 0;
  int64_t k = 0;
  int64_t bits = 0;
  int64_t block = 0;
  int64_t blocks = 0;  // of a column
};
struct PackedWeights {
  std::array<const void*, 3> data{};  // codes, scales, zero points; null: none
  const TensorView* bias = nullptr;   // null: none
};
// What a launch multiplies: rows of one stride.
struct PackedOperands {
  TensorView a;
  TensorView y;
  int64_t m = 0;
  std::vector<PackedWeights> weights = {};  // the twin's last
  std::vector<TensorView> sides = {};
};

// The one stride of all axes but the last; nullopt if there is none.
std::optional<int64_t> row_stride(const TensorView& view);
// What n_bits.gpu takes, but for what follows the sides.
Arguments arguments_of(const PackedShape& shape, const PackedOperands& operands);

class UnpackedProduct {
 public:
  // `weights`: the text of n_bits.gpu that describes types and weights.
  UnpackedProduct(const GpuDevice& device, const Anchor& whole, const PackedShape& shape,
                  const std::string& weights);
  bool by_library() const { return product_.by_library(); }
  int64_t workspace_bytes(int64_t m) const;
  // False where elements of rows are not contiguous: then nothing was enqueued.
  bool run(const LaunchArgs& args, PackedOperands operands, const RowsPrologue& prologue,
           std::byte* workspace) const;

 private:
  int64_t padded() const { return shape_.blocks * shape_.block; }
  int64_t columns_at_once() const;
  void unpack(const LaunchArgs& args, const PackedWeights& weights, int64_t first, int64_t columns,
              std::byte* to) const;
  struct Additions {
    std::array<const void*, 2> bias{};  // of each product
    PlainProduct::Rows residual = {};
    Activation activation = Activation::none;
    bool complete = false;  // they are the whole epilogue
  };
  Additions additions(const PackedOperands& operands) const;
  void finish(const LaunchArgs& args, PackedOperands operands, int64_t first, int64_t columns,
              const void* twin) const;

  const GpuDevice& device_;
  const Anchor& whole_;
  PackedShape shape_;
  ElementType type_;
  bool bias_fits_;  // the library
  LibraryEpilogue epilogue_;
  PlainProduct product_;
  LazyCode unpack_;
  LazyCode finish_;
};

}  // namespace lathe::gpu
