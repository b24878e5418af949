// SPDX-License-Identifier: MIT
// What a kernel sees of a launch.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/box.h"
#include "tensor/tensor.h"

namespace lathe {

class Stream;
class ThreadPool;

// Results of shapes that only the kernel finds, and operands and results that are no plain tensors.
// On the host alone.
class HostMemory {
 public:
  virtual ~HostMemory() = default;
  // Memory of result `i` of this shape, valid until the launch returns. Internal if the shape
  // contradicts the inferred one.
  virtual const TensorView& result(int i, std::span<const int64_t> dims) = 0;
  virtual const Box& box(int i) = 0;
  virtual void set_box(int i, Box box) = 0;
};

// Operands may have any strides, and results too if they lie in a caller's tensor. On a device, the
// pointers of views are the device's; the views themselves are valid until launch() returns.
struct LaunchArgs {
  std::span<const TensorView* const> in;  // null: an absent optional operand
  std::span<TensorView* const> out;
  // The dims of each, as indices into `dims`; empty for boxes.
  std::span<const std::span<const int32_t>> in_dims;
  std::span<const std::span<const int32_t>> out_dims;
  const int64_t* dims = nullptr;  // values of the plan's dims, in the stream's space
  void* workspace = nullptr;      // workspace_bytes() of the kernel, aligned to 64
  Stream* stream = nullptr;
  ThreadPool* pool = nullptr;  // null: the calling thread alone
  HostMemory* host = nullptr;

  bool has(size_t i) const { return i < in.size() && in[i] != nullptr; }
};

}  // namespace lathe
