// SPDX-License-Identifier: MIT
// Values of bf16 for products of pairs. Only for units compiled for an instruction set.
#pragma once

#include <cstddef>

#include "targets/cpu/kernels/simd.h"

namespace lathe::cpu {
namespace {

// to[key / 2][value] = the values of an even key and the next one; 0 behind the last key. Rows are
// `stride` bytes apart.
inline void interleave_values(const Bf16* rows, int64_t stride, int64_t keys, int64_t value_size,
                              int32_t* to, int64_t to_pitch) {
  const auto* row = reinterpret_cast<const std::byte*>(rows);
  for (int64_t key = 0; key < keys; key += 2, to += to_pitch) {
    const auto* a = reinterpret_cast<const Bf16*>(row + key * stride);
    const auto* b = reinterpret_cast<const Bf16*>(row + (key + 1) * stride);
    for (int64_t i = 0; i < value_size; i += kLanes) {
      const Mask mask = mask_first(value_size - i < kLanes ? value_size - i : kLanes);
      const I32 even = bits_of(load_f32(a + i, mask));
      const I32 odd = key + 1 < keys ? bits_of(load_f32(b + i, mask)) : zero_i32();
      store(to + i, {_mm512_or_si512(_mm512_srli_epi32(even.v, 16), odd.v)}, mask);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
