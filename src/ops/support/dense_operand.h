// SPDX-License-Identifier: MIT
// Operands and results as dense tensors, optionally converted, in thread-local scratch.
#pragma once

#include "base/thread_scratch.h"
#include "tensor/tensor.h"

namespace lathe {

// A dense operand, converted if `type` differs; its own memory if neither is needed.
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
  ScratchBlock copy_;
  ScratchBlock converted_;
  TensorView view_;
};

// A dense result: its own memory, or a buffer that `store` converts and copies.
class DenseResult {
 public:
  DenseResult(const TensorView& result, ElementType type);

  int64_t count() const { return view_.count(); }
  template <class T>
  T* as() const {
    return view_.as<T>();
  }
  void store() const;  // must be called last

 private:
  ScratchBlock buffer_;
  TensorView result_;
  TensorView view_;
};

}  // namespace lathe
