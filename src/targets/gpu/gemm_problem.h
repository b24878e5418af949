// SPDX-License-Identifier: MIT
// What a launch of the portable product kernel takes, and how cuBLASLt sees it.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "targets/gpu/anchor.h"
#include "targets/gpu/libraries/cublaslt.h"

namespace lathe::gpu {

inline constexpr size_t kBatchAxes = 6;
inline constexpr size_t kRowAxes = 4;
inline constexpr size_t kWindowAxes = 3;  // of convolutions

// Where elements lie over the batch, rows and columns of a result.
struct Place {
  void* data = nullptr;
  std::array<int64_t, kBatchAxes> batch{};
  std::array<int64_t, kRowAxes> row{};
  int64_t column = 0;

  void append_to(Arguments& arguments) const {
    arguments.add(data);
    arguments.add(batch, kBatchAxes);
    arguments.add(row, kRowAxes);
    arguments.add(column);
  }
};

// Sizes and batch of a launch.
struct Problem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  int64_t batches = 1;
  int64_t splits = 1;  // of the depth
  int64_t split_depth = 0;
  void* partial = nullptr;  // sums of the splits
  int64_t batch_rank = 0;
  std::array<int64_t, kBatchAxes> batch_sizes{};
  int64_t row_rank = 1;
  std::array<int64_t, kRowAxes> row_sizes{1, 1, 1, 1};

  void append_to(Arguments& arguments) const {
    arguments.add(m);
    arguments.add(n);
    arguments.add(k);
    arguments.add(batches);
    arguments.add(splits);
    arguments.add(split_depth);
    arguments.add(partial);
    arguments.add(batch_rank);
    arguments.add(batch_sizes, kBatchAxes);
    arguments.add(row_rank);
    arguments.add(row_sizes, kRowAxes);
  }
};

// The one stride of all rows; nullopt if there is none.
std::optional<int64_t> row_stride(const Problem& problem, const Place& place);

// True if runs may have different numbers of rows of such a result.
bool rows_vary(const Type& type);

// The part of an anchor's epilogue that libraries have: sides by their index, -1: none.
struct LibraryEpilogue {
  int bias = -1;
  int residual = -1;
  Activation activation = Activation::none;
  bool complete = true;  // false: the library computes the sum alone, another launch the epilogue
};
// `bias_axis`: of the result, along which a bias is a vector. `sides`: those that the anchor itself
// adds.
LibraryEpilogue library_epilogue(const Anchor& anchor, int bias_axis,
                                 std::span<const size_t> sides);

// The product for a library; nullopt where strides are none that libraries take. Operand a's depth
// and b's depth are the strides along k.
std::optional<LibraryProduct> library_product(const Problem& problem, std::span<const Place> places,
                                              int64_t a_depth, int64_t b_depth, ElementType type);
// Adds bias and residual; false where their strides prevent it.
bool add_epilogue(LibraryProduct& product, const LibraryEpilogue& epilogue, const Problem& problem,
                  std::span<const Place> sides);

}  // namespace lathe::gpu
