// SPDX-License-Identifier: MIT
// Offsets of buffers in a segment's arena.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lathe {

struct LayoutItem {
  int64_t bytes = 0;
  int first = 0;  // live from launch `first` to `last`, inclusive
  int last = 0;
};

struct Layout {
  std::vector<int64_t> offsets;  // per item, multiples of 64
  int64_t total = 0;
};

// Memory that earlier items keep for the whole layout.
struct FixedItem {
  int64_t offset = 0;
  int64_t bytes = 0;
  friend bool operator==(const FixedItem&, const FixedItem&) = default;
};

// Places items by decreasing size, each at the lowest offset that is free during its lifetime.
Layout place(std::span<const LayoutItem> items, std::span<const FixedItem> fixed = {});

// Rounds a size up to a capacity: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32 … (2^n and 3 · 2^n). Layouts are
// computed for capacities, so that a growing size rarely requires a new one.
int64_t capacity_for(int64_t extent);
// The smallest size of the same capacity.
int64_t capacity_floor(int64_t extent);

}  // namespace lathe
