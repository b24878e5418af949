// SPDX-License-Identifier: MIT
// AMX decode: keys are the left operand of the scores GEMM, the weights that of the output GEMM.
// bf16 keys and values are read in place; int8 ones are widened to bf16, which is exact. Include
// only in units compiled for an instruction set.
#pragma once

#include "targets/cpu/kernels/attention/attention_softmax_rows.h"
#include "targets/cpu/kernels/attention/attention_widen.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kMaxDecodeRows = 8;
constexpr int64_t kPrefetchPairs = 4;  // between prefetches
constexpr int64_t kBlockPairs = kKeyBlock / 2;

// Tiles 0, 1: scores of 16 keys; 2: queries; 3, 4: 16 keys or 16 pairs of values; 5: weights; 6, 7:
// output.
struct alignas(64) RowTiles {
  explicit RowTiles(int64_t count) {
    const auto row = static_cast<uint16_t>(count * 4);
    row_bytes[0] = row_bytes[1] = row_bytes[2] = row;
    rows[5] = rows[6] = rows[7] = static_cast<uint8_t>(count);
  }
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// to[row][key] of 16 keys and rows `first` to `first` + 3 from [key][16 rows].
inline void transpose_scores(const float* from, int64_t first, float* to) {
  __m512 x[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const float* at = from + i * 16 + first;
    x[i] = _mm512_castps128_ps512(_mm_loadu_ps(at));
    x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(at + 64), 1);
    x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(at + 128), 2);
    x[i] = _mm512_insertf32x4(x[i], _mm_loadu_ps(at + 192), 3);
  }
  const __m512 a = _mm512_unpacklo_ps(x[0], x[1]), b = _mm512_unpackhi_ps(x[0], x[1]);
  const __m512 c = _mm512_unpacklo_ps(x[2], x[3]), d = _mm512_unpackhi_ps(x[2], x[3]);
  _mm512_storeu_ps(to, _mm512_shuffle_ps(a, c, 0x44));
  _mm512_storeu_ps(to + kKeyBlock, _mm512_shuffle_ps(a, c, 0xEE));
  _mm512_storeu_ps(to + 2 * kKeyBlock, _mm512_shuffle_ps(b, d, 0x44));
  _mm512_storeu_ps(to + 3 * kKeyBlock, _mm512_shuffle_ps(b, d, 0xEE));
}

// Low and high bytes of 0 to 127 as bf16.
struct MagnitudesInBf16 {
  constexpr MagnitudesInBf16() {
    for (int i = 0; i < 128; ++i) {
      const auto bits = __builtin_bit_cast(uint32_t, static_cast<float>(i));
      low[i] = static_cast<uint8_t>(bits >> 16);
      high[i] = static_cast<uint8_t>(bits >> 24);
    }
  }
  alignas(64) uint8_t low[128] = {};
  alignas(64) uint8_t high[128] = {};
};
constexpr MagnitudesInBf16 kMagnitudes;

// 64 int8 values as bf16, by table lookup of their magnitudes: halves[0] has the first 8 of each
// 16.
inline void widen_int8(__m512i x, __m512i (&halves)[2]) {
  const __m512i size = _mm512_abs_epi8(x);
  const __mmask64 saturated = _mm512_movepi8_mask(size);  // magnitude 128 is not in the table
  const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(kMagnitudes.low), size,
                                               _mm512_load_si512(kMagnitudes.low + 64));
  __m512i high = _mm512_permutex2var_epi8(_mm512_load_si512(kMagnitudes.high), size,
                                          _mm512_load_si512(kMagnitudes.high + 64));
  high = _mm512_mask_mov_epi8(high, saturated, _mm512_set1_epi8(0x43));
  // Sets the sign of x.
  high = _mm512_ternarylogic_epi32(high, x, _mm512_set1_epi8(INT8_MIN), 0xF8);
  halves[0] = _mm512_unpacklo_epi8(low, high);
  halves[1] = _mm512_unpackhi_epi8(low, high);
}

inline __mmask64 mask_bytes(int64_t count) {
  return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

// `keys` int8 rows as bf16 [keys][pitch], with zero rows up to `all`; pitch is a multiple of 64.
inline void widen_keys(const std::byte* from, int64_t stride, int64_t keys, int64_t all,
                       int64_t size, int64_t pitch, Bf16* to) {
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  for (int64_t at = 0; at < pitch; at += 64) {
    const __mmask64 mask = mask_bytes(size - at);
    const std::byte* row = from + at;
    for (int64_t key = 0; key < keys; ++key, row += stride) {
      __m512i halves[2];
      const __m512i x = _mm512_maskz_loadu_epi8(mask, row);
      widen_int8(_mm512_permutexvar_epi64(order, x), halves);
      _mm512_storeu_si512(to + key * pitch + at, halves[0]);
      _mm512_storeu_si512(to + key * pitch + at + 32, halves[1]);
    }
  }
  __builtin_memset(to + keys * pitch, 0, static_cast<size_t>((all - keys) * pitch) * sizeof(Bf16));
}

template <bool kInt8>
void score_rows(const AttentionBlock& b, int64_t rows) {
  alignas(64) float by_key[2 * 16 * 16];
  const auto* q = static_cast<const float*>(b.q);
  const int64_t steps = b.size / 32;
  for (int64_t key = 0; key < b.keys; key += 32) {
    const int64_t left = b.keys - key;
    const bool both = left > 16;
    const std::byte* halves[2] = {b.k_segments[key / kSegment],
                                  both ? b.k_segments[key / kSegment + 1] : nullptr};
    int64_t stride = b.k_stride;
    if constexpr (kInt8) {
      const int64_t pitch = (b.size + 63) / 64 * 64;
      for (int half = 0; half < (both ? 2 : 1); ++half) {
        const int64_t keys = left - half * kSegment;
        Bf16* to = static_cast<Bf16*>(b.wide_keys) + half * kSegment * pitch;
        widen_keys(halves[half], stride, keys < kSegment ? keys : kSegment, kSegment, b.key_columns,
                   pitch, to);
        halves[half] = reinterpret_cast<const std::byte*>(to);
      }
      stride = pitch * 2;
    }
    const auto [k, next] = halves;
    prefetch(*b.next_v);
    _tile_zero(0);
    _tile_zero(1);
    if (both) {
      for (int64_t step = 0; step < steps; ++step) {
        _tile_loadd(2, q + step * 16 * b.pitch, b.pitch * 4);
        _tile_loadd(3, k + step * 64, stride);
        _tile_loadd(4, next + step * 64, stride);
        _tile_dpbf16ps(0, 3, 2);
        _tile_dpbf16ps(1, 4, 2);
      }
    } else {
      for (int64_t step = 0; step < steps; ++step) {
        _tile_loadd(2, q + step * 16 * b.pitch, b.pitch * 4);
        _tile_loadd(3, k + step * 64, stride);
        _tile_dpbf16ps(0, 3, 2);
      }
    }
    _tile_stored(0, by_key, 64);
    if (both) _tile_stored(1, by_key + 256, 64);
    prefetch(*b.next_v);
    for (int64_t row = 0; row < rows; row += 4) {
      transpose_scores(by_key, row, b.scores + row * kKeyBlock + key);
      if (both) transpose_scores(by_key + 256, row, b.scores + row * kKeyBlock + key + 16);
    }
  }
}

inline int64_t score_prefetches(int64_t) { return kKeyBlock / 16; }

// Restores the column order of an output row after interleaving: each vector has four columns of
// each group.
template <int kCount>
inline void restore_columns(__m512 (&x)[kCount]) {
  if constexpr (kCount == 2) {
    const __m512 a = x[0], b = x[1];
    const __m512i low = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    x[0] = _mm512_permutex2var_ps(a, low, b);
    x[1] = _mm512_permutex2var_ps(a, _mm512_add_epi32(low, _mm512_set1_epi32(8)), b);
  } else {
    const __m512 a = _mm512_shuffle_f32x4(x[0], x[1], 0x44);
    const __m512 b = _mm512_shuffle_f32x4(x[0], x[1], 0xEE);
    const __m512 c = _mm512_shuffle_f32x4(x[2], x[3], 0x44);
    const __m512 d = _mm512_shuffle_f32x4(x[2], x[3], 0xEE);
    x[0] = _mm512_shuffle_f32x4(a, c, 0x88);
    x[1] = _mm512_shuffle_f32x4(a, c, 0xDD);
    x[2] = _mm512_shuffle_f32x4(b, d, 0x88);
    x[3] = _mm512_shuffle_f32x4(b, d, 0xDD);
  }
}

// Pairs of values of two keys; zeros for a null row.
template <bool kInt8>
inline void interleave(const std::byte* even, const std::byte* odd, __mmask64 mask, int32_t* to) {
  const __m512i a = _mm512_maskz_loadu_epi8(even == nullptr ? 0 : mask, even);
  const __m512i b = _mm512_maskz_loadu_epi8(odd == nullptr ? 0 : mask, odd);
  if constexpr (kInt8) {
    __m512i halves[2];
    widen_int8(_mm512_unpacklo_epi8(a, b), halves);
    _mm512_store_si512(to, halves[0]);
    _mm512_store_si512(to + 16, halves[1]);
    widen_int8(_mm512_unpackhi_epi8(a, b), halves);
    _mm512_store_si512(to + 32, halves[0]);
    _mm512_store_si512(to + 48, halves[1]);
  } else {
    _mm512_store_si512(to, _mm512_unpacklo_epi16(a, b));
    _mm512_store_si512(to + 16, _mm512_unpackhi_epi16(a, b));
  }
}

// 64 bytes of every row of values at a time.
template <bool kInt8>
void value_rows(const AttentionBlock& b, int64_t rows) {
  constexpr int kVectors = kInt8 ? 4 : 2;
  constexpr int64_t kColumns = kVectors * 16;
  constexpr int64_t kElement = kInt8 ? 1 : 2;
  alignas(64) int32_t pairs[kBlockPairs * kColumns];
  alignas(64) float outputs[kMaxDecodeRows * kColumns];
  const int64_t steps = (b.keys + 31) / 32;
  const auto* weights = static_cast<const Bf16*>(b.weights);
  for (int64_t at = 0; at < b.value_size; at += kColumns) {
    const int64_t size = b.value_size - at < kColumns ? b.value_size - at : kColumns;
    const __mmask64 mask = mask_bytes((b.value_columns - at) * kElement);
    for (int64_t pair = 0; pair < steps * 16; pair += kPrefetchPairs) {
      prefetch(*b.next_k);
      int32_t* to = pairs + pair * kColumns;
      if (2 * pair >= b.keys) {
        for (int64_t i = 0; i < kPrefetchPairs * kColumns; i += 16) store(to + i, zero_i32());
        continue;
      }
      const std::byte* even =
          b.v_segments[2 * pair / kSegment] + 2 * pair % kSegment * b.v_stride + at * kElement;
      if (2 * (pair + kPrefetchPairs) <= b.keys) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < kPrefetchPairs; ++i) {
          const std::byte* own = even + 2 * i * b.v_stride;
          interleave<kInt8>(own, own + b.v_stride, mask, to + i * kColumns);
        }
        continue;
      }
      for (int64_t i = 0; i < kPrefetchPairs; ++i, even += 2 * b.v_stride) {
        const int64_t left = b.keys - 2 * (pair + i);
        interleave<kInt8>(left > 0 ? even : nullptr, left > 1 ? even + b.v_stride : nullptr, mask,
                          to + i * kColumns);
      }
    }
    for (int half = 0; half < kVectors; half += 2) {
      _tile_zero(6);
      _tile_zero(7);
      for (int64_t step = 0; step < steps; ++step) {
        const int32_t* from = pairs + step * 16 * kColumns + half * 16;
        _tile_loadd(5, weights + step * 32, kKeyBlock * 2);
        _tile_loadd(3, from, kColumns * 4);
        _tile_dpbf16ps(6, 5, 3);
        _tile_loadd(4, from + 16, kColumns * 4);
        _tile_dpbf16ps(7, 5, 4);
      }
      _tile_stored(6, outputs + half * 16, kColumns * 4);
      _tile_stored(7, outputs + half * 16 + 16, kColumns * 4);
    }
    for (int64_t row = 0; row < rows; ++row) {
      __m512 x[kVectors];
      for (int i = 0; i < kVectors; ++i) x[i] = _mm512_load_ps(outputs + row * kColumns + i * 16);
      restore_columns(x);
      float* to = b.output + row * b.output_pitch + at;
      for (int i = 0; i * 16 < size && i < kVectors; ++i) _mm512_storeu_ps(to + i * 16, x[i]);
    }
  }
}

inline void decode_rows(const AttentionBlock& b, int64_t rows) {
  const RowTiles tiles(rows);
  _tile_loadconfig(&tiles);
  if (b.k_int8) {
    score_rows<true>(b, rows);
  } else {
    score_rows<false>(b, rows);
  }
  softmax_rows<true>(b, rows);
  if (b.v_int8) {
    value_rows<true>(b, rows);
  } else {
    value_rows<false>(b, rows);
  }
  _tile_release();
}

}  // namespace
}  // namespace lathe::cpu
