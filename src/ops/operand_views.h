// SPDX-License-Identifier: MIT
// Operands and results of one launch or evaluation, for code that both share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace lathe {

class ThreadPool;

// Operands may have any strides; so may results in a caller's tensor.
class OperandViews {
 public:
  virtual ~OperandViews() = default;

  int count() const { return static_cast<int>(inputs_.size()); }
  bool has(int i) const { return i < count() && inputs_[static_cast<size_t>(i)] != nullptr; }
  // Operands and results in plain memory. An absent operand is a view without data.
  const TensorView& in(int i) const {
    const TensorView* view = inputs_[static_cast<size_t>(i)];
    return view != nullptr ? *view : absent();
  }
  // Memory of a result whose shape follows from the operands' types.
  const TensorView& out(int i = 0) const { return *outputs_[static_cast<size_t>(i)]; }
  // Memory of a result of this data-dependent shape, valid until the evaluation returns.
  // InvalidArgument if the shape contradicts the inferred one.
  virtual const TensorView& out(int i, std::span<const int64_t> dims) = 0;
  int results() const { return static_cast<int>(outputs_.size()); }

  // The integers of an operand of any integer type, row-major.
  std::vector<int64_t> values(int i) const;

  ThreadPool* pool = nullptr;  // null: run on the calling thread only

 protected:
  static const TensorView& absent();
  std::span<const TensorView* const> inputs_;  // null: absent
  std::span<TensorView* const> outputs_;
};

}  // namespace lathe
