// SPDX-License-Identifier: MIT
// Decode: some query rows times a block of keys. Vectors run along keys for the scores and along
// values for the output. So keys and values are read once, at memory bandwidth. The order of FMAs
// per element is that of attention_prefill_kernel.h. Include only in units compiled for an
// instruction set.
#pragma once

#include "targets/cpu/kernels/attention/attention_prefetch.h"
#include "targets/cpu/kernels/attention/attention_prefill_kernel.h"
#include "targets/cpu/kernels/attention/attention_softmax_rows.h"

namespace lathe::cpu {
namespace {

constexpr int kMaxDecodeRows = 8;
constexpr int kUnits = 4;  // of a key at a time: 16 bytes

// x[t] = unit t of each of kLanes keys; row(key) returns four units.
template <class Row>
inline __attribute__((always_inline)) void transpose_key_units(const Row& row, F32 (&x)[kUnits]) {
  // Loads keys i, i + 4, … into the 128-bit lanes of a vector, so that the transpose stays within
  // lanes.
  F32 y[kUnits];
#pragma GCC unroll 4
  for (int i = 0; i < kUnits; ++i) {
#if defined(__AVX512F__)
    __m512 z = _mm512_castps128_ps512(row(i));
    z = _mm512_insertf32x4(z, row(i + 4), 1);
    z = _mm512_insertf32x4(z, row(i + 8), 2);
    y[i] = {_mm512_insertf32x4(z, row(i + 12), 3)};
#else
    y[i] = {_mm256_insertf128_ps(_mm256_castps128_ps256(row(i)), row(i + 4), 1)};
#endif
  }
#if defined(__AVX512F__)
  const __m512 a = _mm512_unpacklo_ps(y[0].v, y[1].v), b = _mm512_unpackhi_ps(y[0].v, y[1].v);
  const __m512 c = _mm512_unpacklo_ps(y[2].v, y[3].v), d = _mm512_unpackhi_ps(y[2].v, y[3].v);
  x[0] = {_mm512_shuffle_ps(a, c, 0x44)};
  x[1] = {_mm512_shuffle_ps(a, c, 0xEE)};
  x[2] = {_mm512_shuffle_ps(b, d, 0x44)};
  x[3] = {_mm512_shuffle_ps(b, d, 0xEE)};
#else
  const __m256 a = _mm256_unpacklo_ps(y[0].v, y[1].v), b = _mm256_unpackhi_ps(y[0].v, y[1].v);
  const __m256 c = _mm256_unpacklo_ps(y[2].v, y[3].v), d = _mm256_unpackhi_ps(y[2].v, y[3].v);
  x[0] = {_mm256_shuffle_ps(a, c, 0x44)};
  x[1] = {_mm256_shuffle_ps(a, c, 0xEE)};
  x[2] = {_mm256_shuffle_ps(b, d, 0x44)};
  x[3] = {_mm256_shuffle_ps(b, d, 0xEE)};
#endif
}

#if defined(__AVX512F__)
constexpr int kUnitsAtOnce = 8;
// x[t] = unit t of each of kLanes keys; row(key) returns eight units. 256-bit loads need half the
// instructions of transpose_key_units.
template <class Row>
inline __attribute__((always_inline)) void transpose_keys(const Row& row, F32 (&x)[kUnitsAtOnce]) {
  __m512 y[2][kUnits];  // four units of keys i to i + 3, four more, and both of keys i + 4 to i + 7
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    __m512 z[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int key = 8 * half + i;
      z[i] = _mm512_castpd_ps(_mm512_insertf64x4(_mm512_castps_pd(_mm512_castps256_ps512(row(key))),
                                                 _mm256_castps_pd(row(key + 4)), 1));
    }
    const __m512 a = _mm512_unpacklo_ps(z[0], z[1]), b = _mm512_unpackhi_ps(z[0], z[1]);
    const __m512 c = _mm512_unpacklo_ps(z[2], z[3]), d = _mm512_unpackhi_ps(z[2], z[3]);
    y[half][0] = _mm512_shuffle_ps(a, c, 0x44);
    y[half][1] = _mm512_shuffle_ps(a, c, 0xEE);
    y[half][2] = _mm512_shuffle_ps(b, d, 0x44);
    y[half][3] = _mm512_shuffle_ps(b, d, 0xEE);
  }
#pragma GCC unroll 4
  for (int t = 0; t < kUnits; ++t) {
    x[t] = {_mm512_shuffle_f32x4(y[0][t], y[1][t], 0x88)};
    x[kUnits + t] = {_mm512_shuffle_f32x4(y[0][t], y[1][t], 0xDD)};
  }
}
inline __m256 load_units_at_once(const std::byte* from) {
  return _mm256_loadu_ps(reinterpret_cast<const float*>(from));
}
#else
constexpr int kUnitsAtOnce = kUnits;
template <class Row>
inline __attribute__((always_inline)) void transpose_keys(const Row& row, F32 (&x)[kUnits]) {
  transpose_key_units(row, x);
}
inline __m128 load_units_at_once(const std::byte* from) {
  return _mm_loadu_ps(reinterpret_cast<const float*>(from));
}
#endif

// The first `count` of four units.
inline __m128 load_units(const std::byte* from, int64_t count) {
  const __m128i index = _mm_setr_epi32(0, 1, 2, 3);
  const __m128i mask = _mm_cmpgt_epi32(_mm_set1_epi32(static_cast<int32_t>(count)), index);
  return _mm_maskload_ps(reinterpret_cast<const float*>(from), mask);
}

// Rows of kLanes keys, addressed by one pointer per four keys.
struct KeyRows {
  KeyRows() = default;
  KeyRows(const AttentionBlock& b, int64_t key) : stride(b.k_stride) {
    const std::byte* first = b.k_segments[key / kSegment] + key % kSegment * stride;
#pragma GCC unroll 4
    for (int i = 0; i < kLanes / 4; ++i) row[i] = first + 4 * i * stride;
  }
  const std::byte* at(int key) const { return row[key / 4] + key % 4 * stride; }
  template <int kCount = kUnits>
  inline __attribute__((always_inline)) void advance() {
#pragma GCC unroll 4
    for (auto& at : row) {
      at += 4 * kCount;
      __asm__("" : "+r"(at));  // a pointer per key would spill
    }
  }
  const std::byte* row[kLanes / 4];
  int64_t stride;
};

// Queries are [unit][kRowsAtOnce] per group of rows. They are reread for each group of keys; a
// longer sequence of cache lines would disturb the hardware prefetch streams of the KV cache.
inline const float* queries_of(const AttentionBlock& b, int64_t row, int64_t units) {
  return static_cast<const float*>(b.q) + row * units;
}

// acc[tile][row] += x[tile] · q[row]; tiles share the broadcasts.
template <class Step, int kRows, int kTiles>
inline __attribute__((always_inline)) void add_unit(const F32 (&x)[kTiles], const float* q,
                                                    F32 (&acc)[kTiles][kRows]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    F32 y = Step::spread(reinterpret_cast<const std::byte*>(q + r));
    // Keeps one broadcast for several FMAs.
    if constexpr (kTiles > 1) __asm__ volatile("" : "+v"(y.v));
#pragma GCC unroll 2
    for (int i = 0; i < kTiles; ++i) acc[i][r] = Step::add(acc[i][r], x[i], y);
  }
}

// Scores of kTiles · kLanes valid keys, for rows from `row` on; units are multiples of
// kUnitsAtOnce.
template <class Step, int kRows, int kTiles>
inline __attribute__((always_inline)) void score_tiles(const AttentionBlock& b, int64_t row,
                                                       int64_t key, int64_t units,
                                                       L2Prefetcher& l2) {
  const float* q = queries_of(b, row, units);
  F32 acc[kTiles][kRows];
  KeyRows k[kTiles];
  L1Prefetcher l1[kTiles];
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) acc[i][r] = zero_f32();
    k[i] = KeyRows(b, key + i * kLanes);
    l1[i] = L1Prefetcher::beside_keys(b, row == 0, key + i * kLanes, kTiles * kLanes);
  }
  for (int64_t left = units; left > 0; left -= kUnitsAtOnce, q += kUnitsAtOnce * kRowsAtOnce) {
    F32 x[kTiles][kUnitsAtOnce];
#pragma GCC unroll 2
    for (int i = 0; i < kTiles; ++i) {
#pragma GCC unroll 2
      for (int n = 0; n < kUnitsAtOnce / kUnits; ++n) l1[i].prefetch();
      l2.prefetch<kUnitsAtOnce / kUnits * kLanes / 4>();
      transpose_keys([&](int at) { return load_units_at_once(k[i].at(at)); }, x[i]);
      k[i].template advance<kUnitsAtOnce>();
    }
#pragma GCC unroll 8
    for (int t = 0; t < kUnitsAtOnce; ++t) {
      F32 some[kTiles];
#pragma GCC unroll 2
      for (int i = 0; i < kTiles; ++i) some[i] = x[i][t];
      add_unit<Step, kRows, kTiles>(some, q + t * kRowsAtOnce, acc);
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) l1[i].prefetch_rest();
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      store(b.scores + (row + r) * kKeyBlock + key + i * kLanes, acc[i][r]);
    }
  }
}

// Scores of kLanes keys of any number of units. Keys after the last one repeat it.
template <class Step, int kRows>
inline void score_tail(const AttentionBlock& b, int64_t row, int64_t key, int64_t units) {
  const std::byte* k[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const int64_t at = key + i < b.keys ? i : b.keys - 1 - key;
    k[i] = b.k_segments[key / kSegment] + (key % kSegment + at) * b.k_stride;
  }
  const float* q = queries_of(b, row, units);
  F32 acc[1][kRows];
  for (F32& sum : acc[0]) sum = zero_f32();
  int64_t unit = 0;
  for (; unit + kUnitsAtOnce <= units; unit += kUnitsAtOnce, q += kUnitsAtOnce * kRowsAtOnce) {
    F32 x[kUnitsAtOnce];
    transpose_keys([&](int at) { return load_units_at_once(k[at] + unit * 4); }, x);
#pragma GCC unroll 8
    for (int t = 0; t < kUnitsAtOnce; ++t) {
      const F32 some[1] = {x[t]};
      add_unit<Step, kRows, 1>(some, q + t * kRowsAtOnce, acc);
    }
  }
  for (; unit < units; unit += kUnits, q += kUnits * kRowsAtOnce) {
    const int64_t count = units - unit < kUnits ? units - unit : kUnits;
    F32 x[kUnits];
    transpose_key_units([&](int at) { return load_units(k[at] + unit * 4, count); }, x);
    for (int t = 0; t < count; ++t) {
      const F32 some[1] = {x[t]};
      add_unit<Step, kRows, 1>(some, q + t * kRowsAtOnce, acc);
    }
  }
  for (int r = 0; r < kRows; ++r) store(b.scores + (row + r) * kKeyBlock + key, acc[0][r]);
}

template <class Step, int kRows>
void score_row_group(const AttentionBlock& b, int64_t row, L2Prefetcher& l2) {
  // Two tiles hide the FMA latency and share broadcasts, if the registers suffice.
  constexpr int kTiles = kRegisters == 32 || kRows <= 2 ? 2 : 1;
  const int64_t units = b.size / (Step::kPairs ? 2 : 1);
  int64_t key = 0;
  const int64_t end = units % kUnitsAtOnce == 0 ? b.keys : 0;
  for (; key + kTiles * kLanes <= end; key += kTiles * kLanes) {
    score_tiles<Step, kRows, kTiles>(b, row, key, units, l2);
  }
  for (; key < b.keys; key += kLanes) score_tail<Step, kRows>(b, row, key, units);
}

template <class Step>
void score_rows(const AttentionBlock& b, int64_t rows, L2Prefetcher& l2) {
  for_rows(rows, [&](int64_t row, auto count) { score_row_group<Step, count()>(b, row, l2); });
}

struct SingleValues {  // of one key; PairValues holds two keys
  static F32 read(const std::byte* row, int64_t, bool, int64_t at, Mask mask) {
    return load(reinterpret_cast<const float*>(row) + at, mask);
  }
  // Full vectors in any column order; restore_order restores it.
  template <int kV>
  static void read_all(const std::byte* row, int64_t, int64_t at, F32 (&x)[kV]) {
#pragma GCC unroll 8
    for (int c = 0; c < kV; ++c) x[c] = load(reinterpret_cast<const float*>(row) + at + c * kLanes);
  }
  template <int kV>
  static void order(F32 (&)[kV]) {}  // reorders columns as read_all does
  template <int kV>
  static void restore_order(F32 (&)[kV]) {}
};

// kV vectors of values of kRows rows; part `part` of `parts`.
template <class Step, class Values, int kRows, int kV, bool kFull>
inline void value_rows(const AttentionBlock& b, int64_t at, int64_t row, Mask mask, int64_t part,
                       int64_t parts, L2Prefetcher& l2) {
  constexpr int kUnit = Step::kPairs ? 2 : 1;
  constexpr int64_t kPitch = kKeyBlock / kUnit;
  const auto* weights =
      static_cast<const float*>(Step::kPairs ? b.weights : b.scores) + row * kPitch;
  F32 acc[kRows][kV];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kV; ++c) acc[r][c] = zero_f32();
  }
  const auto add = [&](const F32(&x)[kV], const float* weight) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const F32 p = Step::spread(reinterpret_cast<const std::byte*>(weight + r * kPitch));
#pragma GCC unroll 4
      for (int c = 0; c < kV; ++c) acc[r][c] = Step::add(acc[r][c], x[c], p);
    }
  };
  for (int64_t first = 0; first < b.keys; first += kSegment, weights += kSegment / kUnit) {
    L1Prefetcher l1 = L1Prefetcher::beside_values(b, row == 0, first, part, parts);
    const std::byte* v = b.v_segments[first / kSegment];
    const int64_t keys = b.keys - first < kSegment ? b.keys - first : kSegment;
    int64_t key = 0;
    if constexpr (kFull) {
      constexpr int kAtOnce = 4;
      for (; key + kAtOnce * kUnit <= keys; key += kAtOnce * kUnit) {
#pragma GCC unroll 4
        for (int i = 0; i < kAtOnce; ++i) l1.prefetch();
        l2.prefetch<kAtOnce * kV * kLanes / 16>();
#pragma GCC unroll 4
        for (int i = 0; i < kAtOnce; ++i, v += kUnit * b.v_stride) {
          F32 x[kV];
          Values::read_all(v, b.v_stride, at, x);
          add(x, weights + key / kUnit + i);
        }
      }
    }
    for (; key < keys; key += kUnit, v += kUnit * b.v_stride) {
      l1.prefetch();
      F32 x[kV];
      for (int c = 0; c < kV; ++c) {
        x[c] = Values::read(v, b.v_stride, key + 1 < keys, at + c * kLanes, mask);
      }
      if constexpr (kFull) Values::order(x);
      add(x, weights + key / kUnit);
    }
    l1.prefetch_rest();
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kFull) Values::restore_order(acc[r]);
#pragma GCC unroll 4
    for (int c = 0; c < kV; ++c) {
      store(b.output + (row + r) * b.output_pitch + at + c * kLanes, acc[r][c]);
    }
  }
}

template <class Step, class Values, int kRows>
inline void value_columns(const AttentionBlock& b, int64_t row, L2Prefetcher& l2) {
  constexpr int kV = kRegisters == 32 ? 4 : 2;
  constexpr int64_t kColumns = kV * kLanes;
  const int64_t full = b.value_size / kColumns, some = b.value_size % kColumns;
  const int64_t parts = full + (some + kLanes - 1) / kLanes;
  int64_t part = 0;
  for (; part < full; ++part) {
    value_rows<Step, Values, kRows, kV, true>(b, part * kColumns, row, mask_first(kLanes), part,
                                              parts, l2);
  }
  for (int64_t at = full * kColumns; at < b.value_size; at += kLanes, ++part) {
    const int64_t left = b.value_size - at;
    value_rows<Step, Values, kRows, 1, false>(b, at, row, mask_first(left < kLanes ? left : kLanes),
                                              part, parts, l2);
  }
}

template <class Step, class Values>
void all_value_rows(const AttentionBlock& b, int64_t rows, L2Prefetcher& l2) {
  for_rows(rows,
           [&](int64_t row, auto count) { value_columns<Step, Values, count()>(b, row, l2); });
}

template <class Step, class Values>
void decode_rows(const AttentionBlock& b, int64_t rows) {
  L2Prefetcher l2(b);
  score_rows<Step>(b, rows, l2);
  softmax_rows<Step::kPairs>(b, rows, l2);
  all_value_rows<Step, Values>(b, rows, l2);
}

}  // namespace
}  // namespace lathe::cpu
