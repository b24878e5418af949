// SPDX-License-Identifier: MIT
// Stores accumulators of weight-only kernels to y; rounds rows to bf16. Units include a simd header
// first.
#pragma once

#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

inline void round_to_bf16(float* data, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Bf16 rounded[kLanes];
    store_f32(rounded, load(data + i));
    store(data + i, load_f32(rounded));
  }
}

// Adds the bias and stores rows of accumulators to y.
template <class T>
void store_rows(const float* acc, int64_t sums_stride, int64_t rows, int64_t columns,
                const float* bias, T* y, int64_t stride) {
  for (int64_t part = 0; part * kLanes < columns; ++part) {
    const int64_t left = columns - part * kLanes;
    const Mask mask = mask_first(left < kLanes ? left : kLanes);
    const F32 offset = bias == nullptr ? zero_f32() : load(bias + part * kLanes, mask);
    for (int64_t r = 0; r < rows; ++r) {
      F32 x = load(acc + r * sums_stride + part * kLanes);
      if (bias != nullptr) x = x + offset;
      store_f32(y + r * stride + part * kLanes, x, mask);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
