// SPDX-License-Identifier: MIT
// Attention caches of few bits: code = clamp(round(x / scale)), half to even, and x ≈ code · scale;
// no zero points. As ONNX Runtime's GroupQueryAttention and PagedAttention have them.
#pragma once

#include <vector>

#include "base/thread_scratch.h"
#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {

// i8; u8 for two codes of 4 bits, each plus 8, the first in the low bits (behind an odd number of
// them comes a zero); f8e4m3fn.
inline constexpr TypeSet kCacheCodes =
    types(ElementType::i8, ElementType::u8, ElementType::f8e4m3fn);

// Elements in which a cache of this type keeps `size` numbers.
int64_t stored_size(ElementType cache, int64_t size);
Dim stored_size(ElementType cache, const Dim& size);

// Checks that scales come for caches of codes and for no others, as many as CacheScale takes.
// Operand `first_scale` is that of keys, the next one that of values.
void check_cache_scales(Infer& c, int first_scale, ElementType cache, int64_t heads,
                        const Dim& size);

// The scales of a cache of keys or values [batch, heads, rows, size].
class CacheScale {
 public:
  // One for all, or one per head and channel. None where the operand is absent: the cache holds
  // numbers as they are.
  CacheScale(const Evaluation& c, int operand, int64_t heads, int64_t size);
  explicit operator bool() const { return !scales_.empty(); }

  int64_t size() const { return size_; }
  const float* of(int64_t head) const { return scales_.data() + head * size_; }
  // One row of a head. A scale of 0 rounds the numbers themselves.
  void quantize(ElementType cache, int64_t head, const float* row, void* to) const;
  void dequantize(ElementType cache, int64_t head, const void* codes, float* to) const;

  // All rows, dense, in memory that grows as seldom as it can; views of any strides.
  TensorView quantize(ElementType cache, const TensorView& rows,
                      std::vector<std::byte>& memory) const;
  TensorView dequantize(const TensorView& codes, std::vector<std::byte>& memory) const;
  void dequantize(const TensorView& codes, const TensorView& rows) const;  // dense f32

 private:
  int64_t size_;
  ScratchArray<float> scales_;  // [heads, size]
  ScratchArray<float> inverses_;
};

}  // namespace lathe
