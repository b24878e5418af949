// SPDX-License-Identifier: MIT
// Lists and dense tensors in per-thread scratch, so that repeated runs do not allocate.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "base/thread_scratch.h"
#include "ops/support/views.h"

namespace lathe {

// A growing list of plain values.
template <class T>
class ScratchList {
 public:
  void push_back(T value) {
    if (size_ == memory_.size()) {
      ScratchArray<T> more(std::max<int64_t>(8, 2 * std::ssize(memory_)));
      std::copy(begin(), end(), more.begin());
      memory_ = std::move(more);
    }
    memory_[size_++] = value;
  }
  void resize(size_t size) {  // new elements are undefined
    if (size > memory_.size()) {
      ScratchArray<T> more(static_cast<int64_t>(size));
      std::copy(begin(), end(), more.begin());
      memory_ = std::move(more);
    }
    size_ = size;
  }
  void assign(size_t size, T value) {
    resize(size);
    std::fill(begin(), end(), value);
  }
  void assign(std::span<const T> values) {
    resize(values.size());
    std::ranges::copy(values, begin());
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() const { return memory_.data(); }
  T* begin() const { return data(); }
  T* end() const { return data() + size_; }
  T& operator[](size_t i) const { return memory_[i]; }

 private:
  ScratchArray<T> memory_;
  size_t size_ = 0;
};

class ScratchTensor {
 public:
  ScratchTensor() = default;
  ScratchTensor(ElementType type, std::span<const int64_t> dims) {  // undefined elements
    int64_t count = 1;
    for (const int64_t extent : dims) count *= extent;
    memory_ = ScratchBlock(bytes_for(type, count));
    view_ = dense_view(type, dims, memory_.data());
  }

  const TensorView& view() const { return view_; }
  int64_t count() const { return view_.count(); }
  template <class T>
  T* as() const {
    return view_.as<T>();
  }
  void clear() const {
    std::memset(view_.data, 0, static_cast<size_t>(bytes_for(view_.type, count())));
  }

 private:
  ScratchBlock memory_;
  TensorView view_;
};

}  // namespace lathe
