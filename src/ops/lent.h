// SPDX-License-Identifier: MIT
// Memory for the time of one evaluation, lent by its thread, which keeps it for the next: what is
// run again and again allocates nothing.
#pragma once

#include <cstddef>
#include <span>

#include "tensor/tensor.h"

namespace lathe {

class Lent {
 public:
  Lent() = default;
  explicit Lent(int64_t bytes);  // of any content, aligned to 64 bytes
  Lent(Lent&& other) noexcept;
  Lent& operator=(Lent&& other) noexcept;
  ~Lent();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// So many numbers of any content.
template <class T>
class LentArray {
 public:
  LentArray() = default;
  explicit LentArray(int64_t count)
      : memory_(count * static_cast<int64_t>(sizeof(T))), count_(static_cast<size_t>(count)) {}
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }
  T& operator[](size_t i) const { return data()[i]; }
  T* begin() const { return data(); }
  T* end() const { return data() + count_; }
  size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

 private:
  Lent memory_;
  size_t count_ = 0;
};

// A dense operand, of another element type if asked for: its own memory where it is so already.
class DenseOperand {
 public:
  DenseOperand() = default;
  explicit DenseOperand(const TensorView& operand) : DenseOperand(operand, operand.type) {}
  DenseOperand(const TensorView& operand, ElementType type);

  const TensorView& view() const { return view_; }
  ElementType type() const { return view_.type; }
  int rank() const { return view_.rank; }
  int64_t count() const { return view_.count(); }
  int64_t extent(size_t axis) const { return view_.dims[axis]; }
  void* data() const { return view_.data; }
  template <class T>
  const T* as() const {
    return static_cast<const T*>(view_.data);
  }

 private:
  Lent copy_;
  Lent converted_;
  TensorView view_;
};

}  // namespace lathe
