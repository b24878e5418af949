// SPDX-License-Identifier: MIT
// Body of quantize_ops_*.cpp.
#pragma once

#include "targets/cpu/kernels/elementwise/quantize_ops_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

// Calls f(i, scale, zero) for the whole vectors of an array, then f(i, scale, zero, mask).
template <class F>
inline __attribute__((always_inline)) void for_scaled(const QuantizeScale& by, int64_t count,
                                                      F&& f) {
  const int64_t whole = count & -kLanes;
  const Mask rest = mask_first(count - whole);
  if (by.each) {
    for (int64_t i = 0; i < whole; i += kLanes) f(i, load(by.scale + i), load(by.zero + i));
    if (whole < count) f(whole, load(by.scale + whole, rest), load(by.zero + whole, rest), rest);
    return;
  }
  const F32 scale = set1(*by.scale), zero = set1(*by.zero);
  for (int64_t i = 0; i < whole; i += kLanes) f(i, scale, zero);
  if (whole < count) f(whole, scale, zero, rest);
}

template <class T>
void quantize_array(const float* x, const QuantizeScale& by, T* y, int64_t count) {
  constexpr bool kSigned = static_cast<T>(-1) < 0;
  const F32 low = set1(kSigned ? -128.0F : 0.0F), high = set1(kSigned ? 127.0F : 255.0F);
  for_scaled(by, count,
             [&](int64_t i, F32 scale, F32 zero, auto... mask) __attribute__((always_inline)) {
               const F32 v = round_even(load(x + i, mask...) / scale) + zero;
               const F32 bounded = min(max(v, low), high);
               store_i32(y + i, to_i32(select(is_nan(v), zero_f32(), bounded)), mask...);
             });
}

template <class T>
void dequantize_array(const T* x, const QuantizeScale& by, float* y, int64_t count) {
  for_scaled(by, count,
             [&](int64_t i, F32 scale, F32 zero, auto... mask) __attribute__((always_inline)) {
               store(y + i, (load_f32(x + i, mask...) - zero) * scale, mask...);
             });
}

constexpr QuantizeOps kQuantizeOps{quantize_array<uint8_t>, quantize_array<int8_t>,
                                   dequantize_array<uint8_t>, dequantize_array<int8_t>};

}  // namespace
}  // namespace lathe::cpu
