// SPDX-License-Identifier: MIT
// Buffers of any element type between guards, filled with a byte that is NaN in every float type:
// an out-of-bounds read yields NaN, an out-of-bounds write changes the guard.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/convert.h"

namespace lathe::cpu::test {

class Guarded {
 public:
  Guarded(ElementType type, int64_t count)
      : type_(type), count_(count), bytes_(bytes_for(type, count)), memory_(whole(), kFill) {}

  ElementType type() const { return type_; }
  int64_t count() const { return count_; }
  std::byte* data() { return memory_.data() + kGuard; }
  const std::byte* data() const { return memory_.data() + kGuard; }
  void set(int64_t i, double value) { store_double(type_, data(), i, value); }
  double get(int64_t i) const { return load_double(type_, data(), i); }
  // True if the element has not been written.
  bool is_fill(int64_t i) const {
    const std::byte* at = data() + bytes_for(type_, i);
    return std::all_of(at, at + bytes_for(type_, 1), [](std::byte b) { return b == kFill; });
  }
  bool guards_hold() const {
    const auto is_kept = [](std::byte b) { return b == kFill; };
    return std::all_of(memory_.begin(), memory_.begin() + kGuard, is_kept) &&
           std::all_of(memory_.begin() + kGuard + bytes_, memory_.end(), is_kept);
  }

 private:
  static constexpr std::byte kFill{0xFF};
  static constexpr int64_t kGuard = 128;
  size_t whole() const { return static_cast<size_t>(bytes_ + 2 * kGuard); }

  ElementType type_;
  int64_t count_;
  int64_t bytes_;
  std::vector<std::byte> memory_;
};

}  // namespace lathe::cpu::test
