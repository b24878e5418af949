// SPDX-License-Identifier: MIT
// Rows of floats to 8 bits with a scale per block of k.
#pragma once

#include "targets/cpu/kernels/weight_only_codes.h"

namespace lathe::cpu {
namespace {

#if defined(__AVX512F__)
template <int kVectors>
inline void store_packed(int8_t* to, const I32 (&codes)[kVectors]) {
  I32 low[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) low[i] = codes[i] & set1(0xFF);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i first = _mm512_packus_epi32(low[0].v, low[1].v);
  const __m512i last = kVectors == 4 ? _mm512_packus_epi32(low[2].v, low[3].v) : first;
  const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(first, last));
  if (kVectors == 4) {
    _mm512_storeu_si512(to, bytes);
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(bytes));
  }
}
#endif

// The low bytes of codes: packing is faster than narrowing each vector.
template <int kVectors>
inline void store_codes(int8_t* to, const I32 (&codes)[kVectors]) {
#if defined(__AVX512F__)
  if constexpr (kVectors > 1) return store_packed<kVectors>(to, codes);
#endif
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) store_i32(to + i * kLanes, codes[i]);
}

// A row of blocks, as many at once as a vector has lanes: each a lane while scales are computed.
// kVectors of a block (or of 64 of its elements) lie together.
template <int kVectors>
struct RowQuantiser {
  static constexpr int64_t kRun = kVectors * kLanes;

  const float* from;
  int64_t runs;    // of a block
  int64_t height;  // of blocks of rows
  QuantisedRows to;

  // Of bit patterns, so that a NaN is larger than any number and makes the block's scale NaN.
  inline I32 largest_magnitude(int64_t block) const {
    I32 most = zero_i32();
    const float* at = from + block * runs * kRun;
    for (int64_t r = 0; r < runs; ++r, at += kRun) {
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        most = max(most, bits_of(load(at + i * kLanes)) & set1(0x7FFFFFFF));
      }
    }
    return most;
  }

  // What a factor that is not finite makes of numbers, an i32 cannot hold: its low byte is 0.
  inline I32 quantise(int64_t block, F32 factor) const {
    I32 sum = zero_i32();
    const float* at = from + block * runs * kRun;
    for (int64_t r = 0; r < runs; ++r, at += kRun) {
      I32 codes[kVectors];
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        codes[i] = to_i32(load(at + i * kLanes) * factor);
        sum = sum + codes[i];
      }
      const int64_t k = (block * runs + r) * kRun;
      store_codes<kVectors>(to.codes + k / kStep * kStep * height + k % kStep, codes);
    }
    return sum;
  }

  // `count` blocks from `first` on.
  inline void quantise_blocks(int64_t first, int64_t count, int32_t factor_of_sum,
                              int32_t mask) const {
    I32 x[kLanes];
    float scales[kLanes], factors[kLanes];
    int32_t starts[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = largest_magnitude(first + (i < count ? i : 0));
    const F32 largest = from_bits(across_lanes(x, [](I32 a, I32 b) { return max(a, b); }));
    store(scales, largest / set1(127.0F));
    store(factors, select(equal(largest, zero_f32()), zero_f32(), set1(127.0F) / largest));
    for (int i = 0; i < count; ++i) x[i] = quantise(first + i, set1(factors[i]));
    for (int64_t i = count; i < kLanes; ++i) x[i] = zero_i32();
    const I32 sum = across_lanes(x, [](I32 a, I32 b) { return a + b; });
    store(starts, sum * set1(factor_of_sum) & set1(mask));
    for (int64_t i = 0; i < count; ++i) {
      to.scales[(first + i) * height] = scales[i];
      to.starts[(first + i) * height] = starts[i];
    }
  }

  inline void quantise_block(int64_t block, int32_t factor_of_sum, int32_t mask) const {
    const float largest = lane0(from_bits(most_of_lanes(largest_magnitude(block))));
    to.scales[block * height] = largest / 127.0F;
    const I32 sum = quantise(block, set1(largest == 0.0F ? 0.0F : 127.0F / largest));
    to.starts[block * height] = sum_lanes(sum) * factor_of_sum & mask;
  }

  inline void run(int64_t blocks, int32_t factor_of_sum, int32_t mask) const {
    if (runs > 1) {
      for (int64_t b = 0; b < blocks; ++b) quantise_block(b, factor_of_sum, mask);
      return;
    }
    for (int64_t b = 0; b < blocks; b += kLanes) {
      quantise_blocks(b, blocks - b < kLanes ? blocks - b : kLanes, factor_of_sum, mask);
    }
  }
};

// A row of the first rows of blocks of `height`.
inline void quantise_row(const float* from, int64_t width, int64_t block, int64_t height,
                         Starts starts, int32_t zero, const QuantisedRows& to) {
  const int32_t factor = starts == Starts::of_zero ? -zero : -1;
  const int32_t mask = starts == Starts::to_multiply ? 0xFFFF : -1;
  const int64_t blocks = width / block;
  if (block == 16) {
    RowQuantiser<16 / kLanes>{from, 1, height, to}.run(blocks, factor, mask);
  } else if (block == 32) {
    RowQuantiser<32 / kLanes>{from, 1, height, to}.run(blocks, factor, mask);
  } else {
    RowQuantiser<64 / kLanes>{from, block / 64, height, to}.run(blocks, factor, mask);
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
