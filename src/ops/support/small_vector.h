// SPDX-License-Identifier: MIT
// A vector of at most kMaxRank entries without heap allocation: axes, sizes, loops over them.
#pragma once

#include <array>
#include <span>

#include "base/error.h"
#include "tensor/tensor.h"

namespace lathe {

template <class T>
class SmallVector {
 public:
  void push_back(const T& entry) {
    check(size_ < entries_.size(), ErrorKind::unsupported,
          "a list of a tensor's axes has more than {} entries", size_);
    entries_[size_++] = entry;
  }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return entries_[i]; }
  const T& operator[](size_t i) const { return entries_[i]; }
  T& back() { return entries_[size_ - 1]; }
  T* begin() { return entries_.data(); }
  T* end() { return entries_.data() + size_; }
  const T* begin() const { return entries_.data(); }
  const T* end() const { return entries_.data() + size_; }

 private:
  std::array<T, kMaxRank> entries_{};
  size_t size_ = 0;
};

}  // namespace lathe
