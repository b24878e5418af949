// SPDX-License-Identifier: MIT
#include "targets/sim/memory.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace lathe::sim {
namespace {

uintptr_t number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// Byte offsets of the elements of a view, as a half-open range around `data`.
struct Extent {
  int64_t begin = 0;
  int64_t end = 0;
};

Extent extent_of(const TensorView& view) {
  const auto extents = view.extents();
  if (std::ranges::find(extents, 0) != extents.end()) return {};
  if (is_packed(view.type)) return {0, bytes_for(view.type, view.count())};
  Extent range;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const int64_t reach = (extents[axis] - 1) * view.strides[axis];
    (reach < 0 ? range.begin : range.end) += reach;
  }
  const int64_t element = info(view.type).bits / 8;
  return {range.begin * element, (range.end + 1) * element};
}

}  // namespace

void* Memory::add(void* base, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const uintptr_t shifted = number(base) | kShift;
  blocks_[shifted] = {bytes, base};
  return reinterpret_cast<void*>(shifted);  // NOLINT: an address of the simulated device
}

void Memory::remove(void* shifted) noexcept {
  const std::lock_guard lock(mutex_);
  blocks_.erase(number(shifted));
}

void* Memory::allocate(size_t bytes, size_t alignment) {
  void* base = host_allocator().allocate(bytes, alignment);
  if (base == nullptr) return nullptr;
  std::memset(base, 0xff, bytes);  // a NaN in every floating type
  return add(base, bytes);
}

void Memory::deallocate(void* pointer, size_t bytes) noexcept {
  if (pointer == nullptr) return;
  remove(pointer);
  void* base = reinterpret_cast<void*>(number(pointer) & ~kShift);  // NOLINT: as allocate
  host_allocator().deallocate(base, bytes);
}

void* Memory::real(const void* pointer, size_t bytes) const {
  if (!is_shifted(pointer)) return const_cast<void*>(pointer);
  const std::lock_guard lock(mutex_);
  auto at = blocks_.upper_bound(number(pointer));
  const bool inside = at != blocks_.begin() && [&] {
    --at;
    const uintptr_t offset = number(pointer) - at->first;
    return offset <= at->second.bytes && bytes <= at->second.bytes - offset;
  }();
  check(inside, ErrorKind::device, "sim: {} bytes at {:#x} are not in live memory", bytes,
        number(pointer));
  return reinterpret_cast<void*>(number(pointer) & ~kShift);  // NOLINT: as allocate
}

TensorView Memory::real(const TensorView& view) const {
  TensorView out = view;
  if (!is_shifted(view.data)) return out;
  const Extent extent = extent_of(view);
  const char* begin = static_cast<const char*>(view.data) + extent.begin;
  void* first = real(begin, static_cast<size_t>(extent.end - extent.begin));
  out.data = static_cast<char*>(first) - extent.begin;
  return out;
}

int64_t Memory::live_blocks() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(blocks_);
}

}  // namespace lathe::sim
