// SPDX-License-Identifier: MIT
// Converts cache rows to the compute type and outputs to the result type. Include only in units
// compiled for an instruction set.
#pragma once

#include "targets/cpu/kernels/simd/simd.h"
#include "tensor/element_type.h"

namespace lathe::cpu {
namespace {

template <class From>
inline void widen_elements(const void* from, int64_t count, float* to) {
  const auto* p = static_cast<const From*>(from);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load_f32(p + i));
  if (i < count) {
    const Mask mask = mask_first(count - i);
    store(to + i, load_f32(p + i, mask), mask);
  }
}

// From i8, bf16, f16 or f32.
inline void widen_to_f32(ElementType type, const void* from, int64_t count, void* to) {
  auto* out = static_cast<float*>(to);
  switch (type) {
    case ElementType::i8:
      return widen_elements<int8_t>(from, count, out);
    case ElementType::bf16:
      return widen_elements<Bf16>(from, count, out);
    case ElementType::f16:
      return widen_elements<F16>(from, count, out);
    default:
      return widen_elements<float>(from, count, out);
  }
}

template <class To>
inline void scale_elements(const float* from, int64_t count, float factor, To* to) {
  const F32 by = set1(factor);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_f32(to + i, load(from + i) * by + zero_f32());
  if (i < count) {
    const Mask mask = mask_first(count - i);
    store_f32(to + i, load(from + i, mask) * by + zero_f32(), mask);
  }
}

// To bf16, f16 or f32.
inline void scale_row(ElementType type, const float* from, int64_t count, float factor, void* to) {
  switch (type) {
    case ElementType::bf16:
      return scale_elements(from, count, factor, static_cast<Bf16*>(to));
    case ElementType::f16:
      return scale_elements(from, count, factor, static_cast<F16*>(to));
    default:
      return scale_elements(from, count, factor, static_cast<float*>(to));
  }
}

#if defined(__AVX512F__)
// From i8, which bf16 represents exactly, or bf16.
inline void widen_to_bf16(ElementType type, const void* from, int64_t count, void* to) {
  auto* out = static_cast<Bf16*>(to);
  if (type == ElementType::bf16) {
    __builtin_memcpy(to, from, static_cast<size_t>(count) * sizeof(Bf16));
    return;
  }
  const auto* p = static_cast<const int8_t*>(from);
  for (int64_t i = 0; i < count; i += kLanes) {
    const Mask mask = mask_first(count - i < kLanes ? count - i : kLanes);
    const I32 bits = bits_of(load_f32(p + i, mask));
    _mm256_mask_storeu_epi16(out + i, mask.m, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits.v, 16)));
  }
}
#endif

}  // namespace
}  // namespace lathe::cpu
