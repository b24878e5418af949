// SPDX-License-Identifier: MIT
// Tensor memory with odd strides and a guard pattern between elements.
#pragma once

#include <memory>
#include <vector>

#include "tensor/tensor.h"

namespace lathe::test {

enum class Layout : uint8_t { dense, odd };

// `odd`: reversed axes, a negative stride on the first one, a gap after every element, an odd
// offset; types below 8 bits are always dense. `dense`: the pattern is before and after the
// elements only.
class Guarded {
 public:
  Guarded(ElementType type, const Dims& dims, Layout layout);

  const TensorView& view() const { return view_; }
  // A view of the elements that keeps the memory alive.
  Tensor tensor() const;
  // True if the pattern is unchanged.
  bool intact() const;

 private:
  TensorView view_;
  int64_t offset_ = 0;     // of the first element, in units
  int64_t unit_ = 1;       // bytes per element; packed types: 1
  std::vector<bool> own_;  // per unit: part of the tensor
  std::shared_ptr<std::vector<std::byte>> bytes_;
  std::shared_ptr<std::vector<std::string>> strings_;
};

}  // namespace lathe::test
