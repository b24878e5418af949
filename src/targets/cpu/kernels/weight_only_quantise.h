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

// One row or four, as many of their blocks at once as a vector has lanes: each a lane while scales
// are computed. kVectors of a block (or of 64 of its elements) lie together.
template <int kVectors, int kRows>
class RowQuantiser {
 public:
  RowQuantiser(const RowsToQuantise& rows, const QuantisedRows& to)
      : rows_(rows),
        to_(to),
        runs_(rows.block / kRun),
        factor_of_sum_(rows.starts == Starts::of_zero ? -rows.zero : -1),
        mask_(rows.starts == Starts::to_multiply ? 0xFFFF : -1) {}

  inline void run() const {
    const int64_t blocks = rows_.width / rows_.block;
    for (int64_t b = 0; b < blocks; b += kBlocks) {
      quantise_blocks(b, blocks - b < kBlocks ? blocks - b : kBlocks);
    }
  }

 private:
  static constexpr int64_t kRun = kVectors * kLanes;
  static constexpr int kBlocks = kLanes / kRows;

  const float* at(int64_t row, int64_t block) const {
    return rows_.from + row * rows_.stride + block * rows_.block;
  }

  // Of bit patterns, so that a NaN is larger than any number and makes the block's scale NaN.
  inline I32 largest_magnitude(const float* at) const {
    I32 most = zero_i32();
    for (int64_t r = 0; r < runs_; ++r, at += kRun) {
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        most = max(most, bits_of(load(at + i * kLanes)) & set1(0x7FFFFFFF));
      }
    }
    return most;
  }

  // What a factor that is not finite makes of numbers, an i32 cannot hold: its low byte is 0.
  inline I32 quantise(int64_t row, int64_t block, F32 factor) const {
    I32 sum = zero_i32();
    const float* from = at(row, block);
    for (int64_t r = 0; r < runs_; ++r, from += kRun) {
      I32 codes[kVectors];
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        codes[i] = to_i32(load(from + i * kLanes) * factor);
        sum = sum + codes[i];
      }
      const int64_t k = (block * runs_ + r) * kRun;
      int8_t* const to = to_.codes + k / kStep * kStep * rows_.height + row * kStep + k % kStep;
      store_codes<kVectors>(to, codes);
    }
    return sum;
  }

  // `count` blocks from `first` on: lane i is of row i % kRows.
  inline void quantise_blocks(int64_t first, int64_t count) const {
    I32 x[kLanes];
    float scales[kLanes], factors[kLanes];
    int32_t starts[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      x[i] = i / kRows < count ? largest_magnitude(at(i % kRows, first + i / kRows)) : zero_i32();
    }
    const F32 largest = from_bits(across_lanes(x, [](I32 a, I32 b) { return max(a, b); }));
    store(scales, largest / set1(127.0F));
    store(factors, select(equal(largest, zero_f32()), zero_f32(), set1(127.0F) / largest));
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      x[i] =
          i / kRows < count ? quantise(i % kRows, first + i / kRows, set1(factors[i])) : zero_i32();
    }
    const I32 sum = across_lanes(x, [](I32 a, I32 b) { return a + b; });
    store(starts, sum * set1(factor_of_sum_) & set1(mask_));
    for (int64_t b = 0; b < count; ++b) {
      const int64_t to = (first + b) * rows_.height;
      __builtin_memcpy(to_.scales + to, scales + b * kRows, 4 * kRows);
      __builtin_memcpy(to_.starts + to, starts + b * kRows, 4 * kRows);
    }
  }

  const RowsToQuantise rows_;
  const QuantisedRows to_;
  const int64_t runs_;
  const int32_t factor_of_sum_;
  const int32_t mask_;
};

template <int kRows>
inline void quantise_some_rows(const RowsToQuantise& rows, const QuantisedRows& to) {
  if (rows.block == 16) {
    RowQuantiser<16 / kLanes, kRows>(rows, to).run();
  } else if (rows.block == 32) {
    RowQuantiser<32 / kLanes, kRows>(rows, to).run();
  } else {
    RowQuantiser<64 / kLanes, kRows>(rows, to).run();
  }
}

inline void quantise_rows(const RowsToQuantise& rows, const QuantisedRows& to) {
  if (rows.rows == 4) {
    quantise_some_rows<4>(rows, to);
  } else {
    quantise_some_rows<1>(rows, to);
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
