// SPDX-License-Identifier: MIT
#include "runtime/arena.h"

#include <algorithm>

#include "base/error.h"

namespace lathe {
namespace {

// Addresses cost nothing: room to grow without a move.
constexpr int64_t kLeastReserved = int64_t{64} << 20;
constexpr int64_t kRoom = 4;

}  // namespace

Arena::Arena(const Device* device, BorrowedMemory& memory, size_t segments)
    : device_(device), memory_(memory), placed_(segments) {
  for (size_t i = 0; device == nullptr && i < segments; ++i) blocks_.emplace_back(memory);
}

Arena::~Arena() { memory_.discharge(committed_ + retired_bytes_); }

void Arena::restart(size_t segment) {
  for (size_t i = segment; i < placed_.size(); ++i) placed_[i].clear();
  if (segment > 0) return;
  retired_.clear();
  memory_.discharge(retired_bytes_);
  retired_bytes_ = 0;
}

const std::vector<FixedItem>& Arena::fixed(size_t segment, int first) {
  fixed_.clear();
  for (size_t i = 0; device_ != nullptr && i < segment; ++i) {
    for (const Placed& item : placed_[i]) {
      if (item.last >= first) fixed_.push_back({item.offset, item.bytes});
    }
  }
  return fixed_;
}

void Arena::grow(int64_t bytes) {
  if (bytes <= committed_) return;
  if (range_ == nullptr || bytes > range_->bytes()) {
    std::unique_ptr<AddressRange> larger = device_->reserve(
        std::max(kLeastReserved, bytes > (int64_t{1} << 40) ? bytes : bytes * kRoom));
    const bool in_use =
        std::ranges::any_of(placed_, [](const auto& items) { return !items.empty(); });
    if (range_ != nullptr && in_use) {
      retired_.push_back(std::move(range_));
      retired_bytes_ += committed_;
    } else {
      memory_.discharge(committed_);
    }
    for (auto& items : placed_) items.clear();
    range_ = std::move(larger);
    committed_ = 0;
  }
  const int64_t added = bytes - committed_;
  if (!memory_.charge(added)) {
    fail(ErrorKind::out_of_memory, "cannot allocate a buffer of {} bytes", bytes);
  }
  try {
    range_->commit(committed_, added);
  } catch (...) {
    memory_.discharge(added);
    throw;
  }
  committed_ = bytes;
}

char* Arena::place(size_t segment, const Layout& layout, std::span<const LayoutItem> items) {
  if (device_ == nullptr) return static_cast<char*>(blocks_[segment].reserve(layout.total));
  grow(std::max<int64_t>(layout.total, 1));
  std::vector<Placed>& placed = placed_[segment];
  placed.clear();
  for (size_t i = 0; i < items.size(); ++i) {
    placed.push_back({layout.offsets[i], items[i].bytes, items[i].last});
  }
  return static_cast<char*>(range_->base());
}

}  // namespace lathe
