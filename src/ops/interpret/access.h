// SPDX-License-Identifier: MIT
// Moves elements between tensors of any strides and registers, converting on the way.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ir/expr.h"
#include "tensor/tensor.h"

namespace lathe::interpret {

// The extents over which a result is computed, row-major, with axes merged where every tensor's
// strides allow it.
struct Layout {
  int rank = 0;
  std::array<int64_t, kMaxRank> dims{};
  int64_t count() const;
};

// A tensor as seen over a layout.
struct Access {
  std::byte* data = nullptr;
  ElementType type = ElementType::f32;
  bool scalar = false;                      // one element throughout
  bool linear = false;                      // element i of the layout is element i of the memory
  std::array<int64_t, kMaxRank> strides{};  // by the layout's axes; 0 where it broadcasts
};

// The element type whose memory is a register's memory.
ElementType register_type(ExprType type);

// Sets `scalar` and `linear` from the strides.
void classify(const Layout& layout, Access& access);

// Elements first … first + count - 1 of the layout, as a register of `type`: its memory itself
// where that serves a kernel (`whole`: count is what kernels will read), else `buffer`, filled.
const std::byte* load(const Layout& layout, const Access& access, ExprType type, int64_t first,
                      int64_t count, std::byte* buffer);
// Where a kernel may write elements first … of the result at once; null: into a register, to be
// stored.
std::byte* direct_output(const Access& access, ExprType type, int64_t first, int64_t count);
void store(const Layout& layout, const Access& access, ExprType type, int64_t first, int64_t count,
           const std::byte* values);

// A chunk is never larger.
inline constexpr int64_t kMaxChunk = 512;

}  // namespace lathe::interpret
