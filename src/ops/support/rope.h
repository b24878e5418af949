// SPDX-License-Identifier: MIT
// Rotary position embedding: what rotary_embedding and group_query_attention share.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace lathe {

class ThreadPool;

class Rotation {
 public:
  // Tables whose last axis holds one angle per pair of elements; rows as in row-major order. A pair
  // is (2i, 2i + 1) if interleaved, else (i, half + i).
  Rotation(const TensorView& cos, const TensorView& sin, bool interleaved);

  // Heads [batch, heads, rows, size] of any strides; row s of batch row b turns by table row
  // positions[b · rows + s]. Elements behind the pairs stay. `from` and `to` may not overlap.
  void run(const TensorView& from, const TensorView& to, std::span<const int64_t> positions,
           ThreadPool* pool) const;

 private:
  class Turn;
  int64_t half_;
  Tensor dense_cos_;  // where the operand is not
  Tensor dense_sin_;
  TensorView cos_;
  TensorView sin_;
  bool interleaved_;
};

}  // namespace lathe
