// SPDX-License-Identifier: MIT
// RoPE (rotary position embedding): shared by rotary_embedding and group_query_attention.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/tensor.h"

namespace lathe {

class OpCall;
class ThreadPool;

// Rotates `half` pairs of `size` dense elements; x and y do not overlap.
using RotateRow = void (*)(const float* x, const float* cos, const float* sin, int64_t half,
                           int64_t size, float* y);

class RotaryEmbedding {
 public:
  // cos and sin are row-major with one angle per pair of elements along the last axis. A pair is
  // (2i, 2i + 1) if interleaved, else (i, half + i).
  // `rotate` rotates such pairs of contiguous f32 elements; null: none.
  RotaryEmbedding(const TensorView& cos, const TensorView& sin, bool interleaved,
                  RotateRow rotate = nullptr);

  // Rotates heads [batch, heads, tokens, size] of any strides; token s of sequence b uses row
  // positions[b · tokens + s] of cos and sin. Elements beyond the pairs stay unchanged. `from` and
  // `to` may not overlap.
  void run(const TensorView& from, const TensorView& to, std::span<const int64_t> positions,
           ThreadPool* pool) const;

 private:
  class HeadRotation;
  int64_t half_;
  Tensor dense_cos_;  // set if the operand is not dense
  Tensor dense_sin_;
  TensorView cos_;
  TensorView sin_;
  bool interleaved_;
  RotateRow rotate_;
};

// What rotary_embedding does with its operands.
void rotate_heads(const OpCall& c, int64_t num_heads, bool interleaved, RotateRow rotate);

}  // namespace lathe
