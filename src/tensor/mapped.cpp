// SPDX-License-Identifier: MIT
#include "tensor/mapped.h"

#include <map>
#include <mutex>
#include <shared_mutex>

#include "base/file_map.h"

namespace lathe {

void release_mapped(const Tensor& tensor) {
  if (tensor.type() == ElementType::string || tensor.count() == 0) return;
  int64_t last = 0;  // the largest distance of an element
  for (size_t axis = 0; axis < tensor.dims().size(); ++axis) {
    if (tensor.strides()[axis] < 0) return;
    last += (tensor.dims()[axis] - 1) * tensor.strides()[axis];
  }
  release_mapped({static_cast<const std::byte*>(tensor.data()),
                  static_cast<size_t>(bytes_for(tensor.type(), last + 1))});
}

std::string mapped_place(const Tensor& tensor) {
  if (tensor.type() == ElementType::string || tensor.count() == 0 || !tensor.is_dense()) return "";
  return mapped_place(
      {static_cast<const std::byte*>(tensor.data()), static_cast<size_t>(tensor.byte_size())});
}

namespace {

struct Place {
  uintptr_t end = 0;
  const StoredConstants* file = nullptr;
};

struct Ranges {
  std::shared_mutex mutex;
  std::map<uintptr_t, Place> by_begin;
};

Ranges& ranges() {
  static Ranges& instance = *new Ranges;  // files may outlive statics
  return instance;
}

uintptr_t address_of(const void* data) { return reinterpret_cast<uintptr_t>(data); }

}  // namespace

const StoredConstants* stored_constants(const Tensor& tensor) {
  Ranges& all = ranges();
  const uintptr_t at = address_of(tensor.data());
  const std::shared_lock lock(all.mutex);
  auto after = all.by_begin.upper_bound(at);
  if (after == all.by_begin.begin()) return nullptr;
  const Place& range = std::prev(after)->second;
  return at < range.end ? range.file : nullptr;
}

void restore_stored(const Tensor& tensor) {
  if (const StoredConstants* file = stored_constants(tensor)) file->restore(tensor.data());
}

bool is_known(const Tensor& tensor) {
  const StoredConstants* file = stored_constants(tensor);
  return file == nullptr || file->is_known(tensor.data());
}

StoredRange::StoredRange(const void* begin, size_t bytes, const StoredConstants& file)
    : begin_(begin) {
  Ranges& all = ranges();
  const std::unique_lock lock(all.mutex);
  all.by_begin.insert_or_assign(address_of(begin), Place{address_of(begin) + bytes, &file});
}

StoredRange::~StoredRange() {
  Ranges& all = ranges();
  const std::unique_lock lock(all.mutex);
  all.by_begin.erase(address_of(begin_));
}

}  // namespace lathe
