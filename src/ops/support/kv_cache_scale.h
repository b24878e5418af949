// SPDX-License-Identifier: MIT
// Quantised KV caches: code = clamp(round(x / scale)), half to even, and x ≈ code · scale, without
// zero points. Format of ONNX Runtime's GroupQueryAttention and PagedAttention.
#pragma once

#include <vector>

#include "base/thread_scratch.h"
#include "ir/infer.h"
#include "ops/op_call.h"

namespace lathe {

// i8; f8e4m3fn; u8 with two 4-bit codes plus 8, the first in the low bits (an odd count is padded
// with a zero).
inline constexpr TypeSet kCacheCodes =
    types(ElementType::i8, ElementType::u8, ElementType::f8e4m3fn);

// Stored elements for `size` channels in a cache of this type.
int64_t stored_size(ElementType cache, int64_t size);
Dim stored_size(ElementType cache, const Dim& size);

// Checks that quantised caches have scales, and others have none; and their number. Operand
// `first_scale` is that of keys, the next one that of values.
void check_kv_cache_scales(Infer& c, int first_scale, ElementType cache, int64_t heads,
                           const Dim& size);

// Scales of a cache of keys or values [batch, heads, tokens, size].
class KvCacheScale {
 public:
  // One scale, or one per head and channel. Empty if the operand is absent: the cache is not
  // quantised.
  KvCacheScale(const OpCall& c, int operand, int64_t heads, int64_t size);
  explicit operator bool() const { return !scales_.empty(); }

  int64_t size() const { return size_; }
  const float* of(int64_t head) const { return scales_.data() + head * size_; }
  // One token of one head. A scale of 0 rounds the values themselves.
  void quantize(ElementType cache, int64_t head, const float* row, void* to) const;
  void dequantize(ElementType cache, int64_t head, const void* codes, float* to) const;

  // All tokens, dense, in memory that grows geometrically; views of any strides.
  TensorView quantize(ElementType cache, const TensorView& rows,
                      std::vector<std::byte>& memory) const;
  TensorView dequantize(const TensorView& codes, std::vector<std::byte>& memory) const;
  void quantize(const TensorView& rows, const TensorView& codes) const;    // dense
  void dequantize(const TensorView& codes, const TensorView& rows) const;  // dense f32

 private:
  int64_t size_;
  ScratchArray<float> scales_;  // [heads, size]
  ScratchArray<float> inverses_;
};

}  // namespace lathe
