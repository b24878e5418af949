// SPDX-License-Identifier: MIT
// Tensor memory with odd strides and a pattern wherever no element lies.
#pragma once

#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace lathe::test {

enum class Layout : uint8_t { dense, odd };

// `odd`: axes in reversed order, the first one backwards, a gap after every element, an odd offset.
// (Types below 8 bits are always dense.) `dense` has the pattern before and after the elements.
class Guarded {
 public:
  Guarded(ElementType type, const Dims& dims, Layout layout);

  const TensorView& view() const { return view_; }
  // The elements in place; keeps the memory alive.
  Tensor tensor() const;
  // Whether everything but the elements still holds the pattern.
  bool intact() const;

 private:
  TensorView view_;
  int64_t offset_ = 0;     // of the first element in memory, in units
  int64_t unit_ = 1;       // bytes per element; packed types: 1
  std::vector<bool> own_;  // per unit: part of the tensor
  std::shared_ptr<std::vector<std::byte>> bytes_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

}  // namespace lathe::test
