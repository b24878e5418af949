// SPDX-License-Identifier: MIT
// Rows of floats to 8 bits with a scale per block of k.
#pragma once

#include "targets/cpu/kernels/weight_only_codes.h"

namespace lathe::cpu {
namespace {

// Of bit patterns, so that a NaN is larger than any number and makes the block's scale NaN.
inline F32 largest_magnitude(const float* from, int64_t count) {
  I32 most = zero_i32();
  const I32 magnitude = set1(0x7FFFFFFF);
  for (int64_t i = 0; i < count; i += kLanes) {
    most = max(most, bits_of(load(from + i)) & magnitude);
  }
  return from_bits(most);
}

// What a factor that is not finite makes of numbers, an i32 cannot hold: its low byte is 0.
template <bool kSum>
inline I32 quantise_run(const float* from, int64_t count, float factor, int8_t* to, I32 sum) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const I32 code = to_i32(load(from + i) * set1(factor));
    store_i32(to + i, code);
    if (kSum) sum = sum + code;
  }
  return sum;
}

template <bool kSum>
inline void quantise_blocks(const float* from, int64_t width, int64_t block, int64_t height,
                            int32_t factor_of_sum, int32_t mask, const QuantisedRows& to) {
  const int64_t blocks = width / block;
  const int64_t run = block < kStep ? block : kStep;  // elements that lie together
  for (int64_t b = 0; b < blocks; ++b) {
    const float* const at = from + b * block;
    const float largest = lane0(from_bits(most_of_lanes(bits_of(largest_magnitude(at, block)))));
    to.scales[b * height] = largest / 127.0F;
    const float factor = largest == 0.0F ? 0.0F : 127.0F / largest;
    I32 sum = zero_i32();
    for (int64_t i = 0; i < block; i += run) {
      const int64_t k = b * block + i;
      int8_t* const codes = to.codes + k / kStep * kStep * height + k % kStep;
      sum = quantise_run<kSum>(at + i, run, factor, codes, sum);
    }
    if (kSum) to.starts[b * height] = sum_lanes(sum) * factor_of_sum & mask;
  }
}

// A row of the first rows of blocks of `height`.
inline void quantise_row(const float* from, int64_t width, int64_t block, int64_t height,
                         Starts starts, int32_t zero, const QuantisedRows& to) {
  if (starts == Starts::none) {
    quantise_blocks<false>(from, width, block, height, 0, 0, to);
  } else if (starts == Starts::of_zero) {
    quantise_blocks<true>(from, width, block, height, -zero, -1, to);
  } else {
    quantise_blocks<true>(from, width, block, height, -1, 0xFFFF, to);
  }
}

inline void round_to_bf16(float* data, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    Bf16 rounded[kLanes];
    store_f32(rounded, load(data + i));
    store(data + i, load_f32(rounded));
  }
}

}  // namespace
}  // namespace lathe::cpu
