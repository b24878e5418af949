// SPDX-License-Identifier: MIT
// The memory of a frame in one space: slots of all segments at addresses that stay.
#pragma once

#include <memory>
#include <vector>

#include "plan/arena_layout.h"
#include "plan/device.h"
#include "runtime/memory.h"

namespace lathe {

// One range of addresses for all segments, which grows in place. Memory from a caller's allocator
// cannot: then each segment has a block of its own, which moves when it grows.
class Arena {
 public:
  // `device` reserves addresses; null: blocks from `memory`, which also counts what is in use.
  Arena(const Device* device, BorrowedMemory& memory, size_t segments);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // Drops the placements of a segment and of all later ones.
  void restart(size_t segment);
  // What must keep its place while segment `segment`, which begins at launch `first`, runs.
  const std::vector<FixedItem>& fixed(size_t segment, int first);
  // Memory of a segment with this layout, in which `last` ends the lifetime of each item.
  // OutOfMemory.
  char* place(size_t segment, const Layout& layout, std::span<const LayoutItem> items);
  // False after a growth that left earlier segments elsewhere: the next run must place all anew.
  bool stays() const { return retired_.empty(); }

 private:
  struct Placed {
    int64_t offset = 0;
    int64_t bytes = 0;
    int last = 0;
  };
  void grow(int64_t bytes);

  const Device* device_;
  BorrowedMemory& memory_;
  std::unique_ptr<AddressRange> range_;
  int64_t committed_ = 0;
  std::vector<std::unique_ptr<AddressRange>> retired_;  // in use until the next run
  int64_t retired_bytes_ = 0;
  std::vector<std::vector<Placed>> placed_;  // per segment, in range_
  std::vector<FixedItem> fixed_;
  std::vector<GrowingBuffer> blocks_;  // per segment, without ranges
};

}  // namespace lathe
