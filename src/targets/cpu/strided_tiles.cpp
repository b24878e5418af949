// SPDX-License-Identifier: MIT
#include "targets/cpu/strided_tiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>

#include "base/thread_pool.h"
#include "base/thread_scratch.h"
#include "targets/cpu/kernels/common/transpose.h"

namespace lathe::cpu {
namespace {

using codegen::KernelCall;
using interpret::Access;
using interpret::Layout;

constexpr int64_t kRows = 32, kElements = 4096;  // of a tile

int64_t bytes_of(const Access& access) { return info(access.type).bits / 8; }

// Another axis along which the operand is closest; -1: there is none.
int closest_axis(const Layout& layout, const Access& access) {
  int best = -1;
  for (int axis = 0; axis + 1 < layout.rank; ++axis) {
    const int64_t stride = std::abs(access.strides[static_cast<size_t>(axis)]);
    const bool closer = best < 0 || stride < std::abs(access.strides[static_cast<size_t>(best)]);
    if (stride != 0 && closer) best = axis;
  }
  return best;
}

int64_t tiles_of(int64_t extent, int64_t size) { return (extent + size - 1) / size; }

// Each copy of a tile starts at a multiple of this many bytes.
int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

StridedTiles::StridedTiles(const Layout& layout, std::span<const Access> all, uint32_t strided)
    : layout_(layout), all_(all), strided_(strided), last_(layout.rank - 1) {
  for (size_t i = 0; i < all.size() && second_ < 0; ++i) {
    if ((strided >> i & 1) != 0) second_ = closest_axis(layout, all[i]);
  }
  if (second_ < 0) second_ = layout.rank - 2;
  const int64_t rows = second_ < 0 ? 1 : layout.dims[static_cast<size_t>(second_)];
  const int64_t columns = layout.dims[static_cast<size_t>(last_)];
  rows_ = std::min(rows, kRows);
  columns_ = std::min(columns, kElements / rows_);
  row_tiles_ = tiles_of(rows, rows_);
  column_tiles_ = tiles_of(columns, columns_);
  lines_ = layout.count() / (rows * columns);
}

// Tiles that read the same lines of memory follow each other.
StridedTiles::Tile StridedTiles::tile(int64_t index) const {
  Tile out;
  out.column = index % column_tiles_ * columns_;
  index /= column_tiles_;
  out.row = index % row_tiles_ * rows_;
  out.line = index / row_tiles_;
  if (second_ >= 0) {
    out.rows = std::min(rows_, layout_.dims[static_cast<size_t>(second_)] - out.row);
  }
  out.columns = std::min(columns_, layout_.dims[static_cast<size_t>(last_)] - out.column);
  return out;
}

std::byte* StridedTiles::at(const Access& access, const Tile& tile) const {
  int64_t offset = tile.column * access.strides[static_cast<size_t>(last_)];
  if (second_ >= 0) offset += tile.row * access.strides[static_cast<size_t>(second_)];
  int64_t line = tile.line;
  for (int axis = last_ - 1; axis >= 0; --axis) {
    if (axis == second_) continue;
    const auto a = static_cast<size_t>(axis);
    offset += line % layout_.dims[a] * access.strides[a];
    line /= layout_.dims[a];
  }
  return access.data + offset * bytes_of(access);
}

void StridedTiles::copy(const Access& access, const Tile& tile, std::byte* to) const {
  const int64_t along = access.strides[static_cast<size_t>(last_)];
  const int64_t down = second_ < 0 ? 0 : access.strides[static_cast<size_t>(second_)];
  std::byte* from = at(access, tile);
  if (down == 1 && bytes_of(access) <= 4) {
    return transpose_matrix(static_cast<int>(bytes_of(access)), from, along, to, tile.columns,
                            tile.columns, tile.rows);
  }
  const auto view = [&](std::byte* data, int64_t row, int64_t column) {
    TensorView out{.type = access.type, .rank = 2, .data = data};
    out.dims = {tile.rows, tile.columns};
    out.strides = {row, column};
    return out;
  };
  copy_elements(view(from, down, along), view(to, tile.columns, 1));
}

void StridedTiles::run(const std::function<void(KernelCall&)>& kernel, int64_t elements,
                       ThreadPool* pool) const {
  const int64_t size = rows_ * columns_;
  const int64_t grain = std::max<int64_t>(elements / size, 1);
  parallel_for(pool, lines_ * row_tiles_ * column_tiles_, grain, [&](int64_t begin, int64_t end) {
    constexpr int64_t kWidest = 8;  // bytes of an element
    const ScratchBlock memory(std::popcount(strided_) * aligned(size * kWidest));
    for (int64_t index = begin; index < end; ++index) {
      const Tile own = tile(index);
      KernelCall call{.rows = own.rows, .columns = own.columns};
      std::byte* next = memory.data();
      for (size_t i = 0; i < all_.size(); ++i) {
        const Access& access = all_[i];
        const int64_t down = second_ < 0 ? 0 : access.strides[static_cast<size_t>(second_)];
        if ((strided_ >> i & 1) == 0) {
          call.operands[i] = {at(access, own), down * bytes_of(access)};
          continue;
        }
        copy(access, own, next);
        call.operands[i] = {next, own.columns * bytes_of(access)};
        next += aligned(size * bytes_of(access));
      }
      kernel(call);
    }
  });
}

}  // namespace lathe::cpu
