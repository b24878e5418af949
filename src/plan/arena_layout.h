// SPDX-License-Identifier: MIT
// Where buffers lie in a segment's arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

struct LayoutItem {
  int64_t bytes = 0;
  int first = 0;  // launches during which the bytes are needed, both included
  int last = 0;
};

struct Layout {
  std::vector<int64_t> offsets;  // per item, multiples of 64
  int64_t total = 0;
};

// Largest first, each at the lowest offset free during its whole lifetime.
Layout place(std::span<const LayoutItem> items);

// The capacity for an extent: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 … (powers of two and their halves
// between). Layouts are made for capacities, so that a growing extent rarely needs a new one.
int64_t capacity_for(int64_t extent);
// The least extent of the same capacity.
int64_t capacity_floor(int64_t extent);

}  // namespace lathe
