// SPDX-License-Identifier: MIT
// Operands made dense, or of another element type, in memory that is lent.
#pragma once

#include "base/thread_scratch.h"
#include "tensor/tensor.h"

namespace lathe {

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
  ScratchBlock copy_;
  ScratchBlock converted_;
  TensorView view_;
};

}  // namespace lathe
