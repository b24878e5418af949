// SPDX-License-Identifier: MIT
#include "plan/arena_layout.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

namespace lathe {

namespace {

constexpr int64_t kAlign = 64;

int64_t aligned(int64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

struct Placed {
  int64_t offset = 0;
  int64_t end = 0;
  int first = std::numeric_limits<int>::min();
  int last = std::numeric_limits<int>::max();
};

}  // namespace

Layout place(std::span<const LayoutItem> items, std::span<const FixedItem> fixed) {
  Layout layout;
  layout.offsets.resize(items.size());
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return items[a].bytes != items[b].bytes ? items[a].bytes > items[b].bytes : a < b;
  });
  std::vector<Placed> placed;  // by offset
  for (const FixedItem& item : fixed) {
    placed.push_back({item.offset, item.offset + aligned(item.bytes)});
    layout.total = std::max(layout.total, placed.back().end);
  }
  std::ranges::sort(placed, {}, &Placed::offset);
  for (const size_t i : order) {
    const int64_t bytes = aligned(items[i].bytes);
    int64_t offset = 0;
    for (const Placed& other : placed) {
      const bool apart = other.last < items[i].first || items[i].last < other.first;
      if (apart || other.end == other.offset) continue;
      if (other.offset >= offset + bytes) break;
      offset = std::max(offset, other.end);
    }
    layout.offsets[i] = offset;
    layout.total = std::max(layout.total, offset + bytes);
    const auto at = std::ranges::upper_bound(placed, offset, {}, &Placed::offset);
    placed.insert(at, {offset, offset + bytes, items[i].first, items[i].last});
  }
  return layout;
}

int64_t capacity_for(int64_t extent) {
  if (extent <= 2) return std::max<int64_t>(extent, 1);
  if (extent > std::numeric_limits<int64_t>::max() / 2) return extent;
  const auto value = static_cast<uint64_t>(extent);
  const auto power = static_cast<int64_t>(std::bit_ceil(value));
  return extent <= power / 4 * 3 ? power / 4 * 3 : power;
}

int64_t capacity_floor(int64_t extent) {
  if (extent <= 1) return 0;
  const int64_t capacity = capacity_for(extent);
  if (capacity <= 3) return capacity;
  // The previous capacity: 3/4 of 2^n, or 2/3 of 3 · 2^n.
  const bool is_power = std::has_single_bit(static_cast<uint64_t>(capacity));
  return (is_power ? capacity / 4 * 3 : capacity / 3 * 2) + 1;
}

}  // namespace lathe
