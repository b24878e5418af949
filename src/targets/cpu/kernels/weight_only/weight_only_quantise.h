// SPDX-License-Identifier: MIT
// Quantises f32 rows to int8 with a scale per block of k.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_unpack.h"

namespace lathe::cpu {
namespace {

// Stores the low bytes of codes: packing is faster than narrowing each vector. Values beyond 16
// bits have a low byte of 0.
template <int kVectors>
inline void store_codes(int8_t* to, const I32 (&codes)[kVectors]) {
#if defined(__AVX512F__)
  if constexpr (kVectors > 1) {
    const __m512i low = _mm512_set1_epi16(0xFF);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const auto low_bytes = [=](I32 a, I32 b) {
      return _mm512_and_si512(_mm512_packs_epi32(a.v, b.v), low);
    };
    const __m512i first = low_bytes(codes[0], codes[1]);
    const __m512i last = kVectors == 4 ? low_bytes(codes[2], codes[3]) : first;
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(first, last));
    if constexpr (kVectors == 4) {
      _mm512_storeu_si512(to, bytes);
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(bytes));
    }
    return;
  }
#endif
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) store_i32(to + i * kLanes, codes[i]);
}

// Quantises one row or four. A vector has one lane per block while scales are computed. kVectors
// vectors of a block (kWholeBlock) or of 64 of its elements are contiguous.
template <int kVectors, bool kWholeBlock, int kRows>
class RowQuantiser {
 public:
  RowQuantiser(const RowsToQuantise& rows, const QuantisedRows& to)
      : rows_(rows),
        to_(to),
        block_(kWholeBlock ? kGroup : rows.block),
        factor_of_sum_(rows.starts == Starts::of_zero ? -rows.zero : -1),
        mask_(rows.starts == Starts::to_multiply ? 0xFFFF : -1) {}

  // Processes kElements elements at a time: first their scales, which have long latencies, then
  // their codes.
  inline void run() const {
    constexpr int64_t kElements = 2048, kMaxGroups = kElements / (16 * kLanes);
    const int64_t blocks = rows_.width / block_;
    const int64_t groups = kElements / (kLanes * block_) > 0 ? kElements / (kLanes * block_) : 1;
    float factors[kMaxGroups * kLanes];
    for (int64_t first = 0; first < blocks; first += groups * kBlocks) {
      const int64_t end = least(blocks, first + groups * kBlocks);
      int64_t b = first;
      for (; b + kBlocks <= end; b += kBlocks) {
        find_scales<true>(b, kBlocks, factors + (b - first) * kRows);
      }
      if (b < end) find_scales<false>(b, end - b, factors + (b - first) * kRows);
      for (b = first; b + kBlocks <= end; b += kBlocks) {
        quantise_blocks<true>(b, kBlocks, factors + (b - first) * kRows);
      }
      if (b < end) quantise_blocks<false>(b, end - b, factors + (b - first) * kRows);
    }
  }

 private:
  static constexpr int64_t kGroup = kVectors * kLanes;
  static constexpr int64_t kBlocks = kLanes / kRows;

  static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

  // Compares bit patterns: a NaN exceeds all other values and makes the block's scale NaN.
  // Prefetches the next rows: short rows end before the hardware prefetcher starts.
  inline I32 largest_magnitude(const float* from) const {
    I32 largest = zero_i32();
    for (int64_t k = 0; k < block_; k += kGroup) {
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        const float* const at = from + k + i * kLanes;
        __builtin_prefetch(at + kRows * rows_.stride, 0, 2);
        largest = max(largest, bits_of(load(at)) & set1(0x7FFFFFFF));
      }
    }
    return largest;
  }

  // A factor that is not finite yields values out of the range of i32, whose low byte is 0. `to` is
  // the place of the codes of the block's first step along k.
  inline I32 quantise(const float* from, F32 factor, int8_t* to) const {
    I32 sum = zero_i32();
    for (int64_t k = 0; k < block_; k += kGroup) {
      I32 codes[kVectors];
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        codes[i] = to_i32(load(from + k + i * kLanes) * factor);
        sum = sum + codes[i];
      }
      store_codes<kVectors>(to + k * rows_.height, codes);
    }
    return sum;
  }

  // Sets x of the lanes of `count` blocks, or kBlocks, and zeros behind them. A row's last blocks
  // are few: their code is not unrolled, which halves this file's.
  template <bool kAll, class F>
  static inline void for_lanes(int64_t count, I32 (&x)[kLanes], F f) {
    if constexpr (kAll) {
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) x[i] = f(i);
    } else {
      for (I32& lane : x) lane = zero_i32();
      auto lanes = static_cast<int>(count) * kRows;
      __asm__("" : "+r"(lanes));
      for (int i = 0; i < lanes; ++i) x[i] = f(i);
    }
  }

  // `count` blocks from `first` on, or kBlocks; lane i belongs to row i % kRows.
  template <bool kAll>
  inline void find_scales(int64_t first, int64_t count, float* factors) const {
    const float* const from = rows_.from + first * block_;
    I32 x[kLanes];
    for_lanes<kAll>(count, x, [&](int i) {
      return largest_magnitude(from + i % kRows * rows_.stride + i / kRows * block_);
    });
    const F32 largest = from_bits(across_lanes(x, [](I32 a, I32 b) { return max(a, b); }));
    float scales[kLanes];
    store(scales, largest / set1(127.0F));
    store(factors, select(equal(largest, zero_f32()), zero_f32(), set1(127.0F) / largest));
    put(scales, to_.scales, first, count);
  }

  template <bool kAll>
  inline void quantise_blocks(int64_t first, int64_t count, const float* factors) const {
    const float* const from = rows_.from + first * block_;
    I32 x[kLanes];
    for_lanes<kAll>(count, x, [&](int i) {
      const int64_t k = (first + i / kRows) * block_;
      int8_t* const to = to_.codes + (k & -kStep) * rows_.height + (k & (kStep - 1));
      return quantise(from + i % kRows * rows_.stride + i / kRows * block_, set1(factors[i]),
                      to + i % kRows * kStep);
    });
    const I32 sum = across_lanes(x, [](I32 a, I32 b) { return a + b; });
    int32_t starts[kLanes];
    store(starts, sum * set1(factor_of_sum_) & set1(mask_));
    put(starts, to_.starts, first, count);
  }

  template <class T>
  inline void put(const T* lanes, T* to, int64_t first, int64_t count) const {
    for (int64_t b = 0; b < count; ++b) {
      __builtin_memcpy(to + (first + b) * rows_.height, lanes + b * kRows, 4 * kRows);
    }
  }

  const RowsToQuantise rows_;
  const QuantisedRows to_;
  const int64_t block_;
  const int32_t factor_of_sum_;
  const int32_t mask_;
};

template <int kRows>
inline void quantise_some_rows(const RowsToQuantise& rows, const QuantisedRows& to) {
  if (rows.block == 16) {
    RowQuantiser<16 / kLanes, true, kRows>(rows, to).run();
  } else if (rows.block == 32) {
    RowQuantiser<32 / kLanes, true, kRows>(rows, to).run();
  } else {
    RowQuantiser<64 / kLanes, false, kRows>(rows, to).run();
  }
}

inline void quantise_rows(const RowsToQuantise& rows, const QuantisedRows& to) {
  if (rows.rows == 4) {
    quantise_some_rows<4>(rows, to);
  } else {
    quantise_some_rows<1>(rows, to);
  }
}

}  // namespace
}  // namespace lathe::cpu
