// SPDX-License-Identifier: MIT
// Elementwise kernels over operands that are strided along the last axis: transposed ones, mostly.
// A tile of two axes of each is copied to contiguous memory in the L1 cache, where the kernel reads
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "codegen/kernel.h"
#include "ops/interpret/access.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

class StridedTiles {
 public:
  // `strided`: a bit per access; the result is the last one.
  StridedTiles(const interpret::Layout& layout, std::span<const interpret::Access> all,
               uint32_t strided);
  // Calls `kernel` with each tile; a task computes at least `elements`.
  void run(const std::function<void(codegen::KernelCall&)>& kernel, int64_t elements,
           ThreadPool* pool) const;

 private:
  struct Tile {
    int64_t line = 0;  // of the axes but two
    int64_t row = 0, column = 0;
    int64_t rows = 1, columns = 1;
  };
  Tile tile(int64_t index) const;
  std::byte* at(const interpret::Access& access, const Tile& tile) const;
  void copy(const interpret::Access& access, const Tile& tile, std::byte* to) const;

  const interpret::Layout& layout_;
  std::span<const interpret::Access> all_;
  uint32_t strided_;
  int last_;                        // axis of columns
  int second_ = -1;                 // axis of rows; -1: none
  int64_t rows_ = 1, columns_ = 1;  // of a tile
  int64_t row_tiles_ = 1, column_tiles_ = 1, lines_ = 1;
};

}  // namespace lathe::cpu
