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

// Codes of one block; gives their sum. A factor of 0 gives zeros.
inline int32_t quantise_block(const float* from, int64_t count, float factor, int8_t* to) {
  I32 sum = zero_i32();
  for (int64_t i = 0; i < count; i += kLanes) {
    F32 x = load(from + i) * set1(factor);
    x = select(is_nan(x), zero_f32(), x);
    const I32 code = to_i32(max(min(x, set1(127.0F)), set1(-127.0F)));
    store_i32(to + i, code);
    sum = sum + code;
  }
  return sum_lanes(sum);
}

// Row 0 of `height`.
inline void quantise_row(const float* from, int64_t width, int64_t block, int64_t height, bool sums,
                         const QuantisedRows& to) {
  const int64_t blocks = width / block;
  for (int64_t b = 0; b < blocks; ++b) {
    const float* at = from + b * block;
    const I32 most = bits_of(largest_magnitude(at, block));
    const float largest = lane0(from_bits(most_of_lanes(most)));
    to.scales[b * height] = largest / 127.0F;
    const float factor = largest == 0.0F ? 0.0F : 127.0F / largest;
    int32_t sum = 0;
    // Of 64 elements at most, which lie together.
    const int64_t run = block < kStep ? block : kStep;
    for (int64_t k = b * block; k < (b + 1) * block; k += run) {
      sum +=
          quantise_block(from + k, run, factor, to.codes + k / kStep * kStep * height + k % kStep);
    }
    if (sums) to.sums[b * height] = -sum & 0xFFFF;
  }
}

}  // namespace
}  // namespace lathe::cpu
