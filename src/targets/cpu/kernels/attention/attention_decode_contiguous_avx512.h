// SPDX-License-Identifier: MIT
// Contiguous decode: some query rows times full blocks with contiguous keys and contiguous values.
// It computes the keys of all blocks, then the values of all blocks. Each block's softmax overlaps
// the next block's scores. Bits equal those of attention_decode_kernel.h, which runs block by
// block.
//
// Memory is read as two long hardware prefetch streams, which reach further than software prefetch
// on some processors (host_prefers_hardware_prefetch). Zen 4 drops a prefetch stream when two dozen
// cache lines of another one miss L1 in a short time. Each drop costs about 1,000 cycles; a few
// consecutive misses slow it down. The kernel reads keys sixteen rows at a time, so it first loads
// their cache lines in memory order. Scores stay in L1. Weights, which come from L2, have a
// bit-reversed order (`reversed`), which starts no prefetch stream. Include only in units compiled
// for AVX-512.
#pragma once

#include <utility>

#include "targets/cpu/kernels/attention/attention_decode_kernel.h"

namespace lathe::cpu {
namespace {

static_assert(kContiguousRows == kRowsAtOnce);
constexpr int64_t kPairLanes = 2 * kLanes;         // elements of a vector of pairs
constexpr int64_t kContiguousTileBytes = 8 << 10;  // of keys per tile, and as much prefetched

// Loads both halves of each cache line in memory order: with one partial load per cache line, the
// hardware prefetcher has a shorter distance. Loads 4 bytes each: full vectors would occupy
// registers until they arrive.
class LinePrefetcher {
 public:
  LinePrefetcher(const std::byte* begin, const std::byte* end) : at_(begin), end_(end) {}
  template <int kCacheLines>
  inline __attribute__((always_inline)) void load() {
    if (end_ - at_ < kCacheLines * 64) return;
#pragma GCC unroll 8
    for (int i = 0; i < kCacheLines; ++i) load_line(at_ + i * 64);
    at_ += kCacheLines * 64;
  }
  inline __attribute__((always_inline)) void load_some(int64_t cache_lines) {
    for (; cache_lines > 0 && at_ < end_; --cache_lines, at_ += 64) load_line(at_);
  }
  void reach(const std::byte* to) {
    for (; at_ < to && at_ < end_; at_ += 64) load_line(at_);
  }

 private:
  static inline __attribute__((always_inline)) void load_line(const std::byte* at) {
#pragma GCC unroll 2
    for (int i = 0; i < 64; i += 32) {
      int32_t x;
      __builtin_memcpy(&x, at + i, sizeof x);
      __asm__ volatile("" ::"r"(x));
    }
  }
  const std::byte* at_;
  const std::byte* end_;
};

// Index of the 64-byte vector with part `part` of a row's weights in a block.
template <class Step, int kRows>
constexpr int64_t contiguous_weight_vector(int64_t row, int64_t part) {
  constexpr int64_t kParts = kKeyBlock / kLanes / (Step::kPairs ? 2 : 1);
  return (kRows > 2 ? reversed(row, 4) : row) * kParts + reversed(part, kParts);
}

// Softmax of a block, kTiles · kLanes keys at a time, beside the scores of the next block.
template <class Step, int kRows, int kTiles>
class ContiguousSoftmax {
 public:
  ContiguousSoftmax(const ContiguousDecode& call, int64_t block, const float* scores)
      : scores_(scores),
        weights_(call.weights_of(block, kRows, Step::kPairs)),
        scale_(call.scale),
        result_(call.results[block]) {
    constexpr int kVectors = static_cast<int>(kKeyBlock) / kLanes;
    const F32 low = set1(-kInfinity);
    store(result_.largest, low);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      F32 top[2] = {low, low};
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) {
        top[i % 2] = max(top[i % 2], load(scores + r * kKeyBlock + i * kLanes));
      }
      const float largest = max_lanes(max(top[0], top[1])) * scale_;
      result_.largest[r] = largest;
      minus_[r] = largest == -kInfinity ? 0.0F : -largest;
    }
  }
  inline __attribute__((always_inline)) void add_weights(int64_t key, LinePrefetcher& prefetcher,
                                                         int64_t cache_lines) {
    const F32 scale = set1(scale_);
    F32 x[kTiles][kRowsAtOnce];
#pragma GCC unroll 2
    for (int i = 0; i < kTiles; ++i) {
#pragma GCC unroll 4
      for (int r = 0; r < kRowsAtOnce; ++r) {
        x[i][r] = zero_f32();
        if (r >= kRows) continue;
        if (r % 2 == 0) prefetcher.load_some(cache_lines);
        const F32 score = load(scores_ + r * kKeyBlock + key + i * kLanes);
        x[i][r] = weight_of<Step::kPairs>(score, scale, set1(minus_[r]));
      }
      add(x[i]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      if constexpr (Step::kPairs) {
        static_assert(kTiles == 2);
        const int64_t vector = contiguous_weight_vector<Step, kRows>(r, key / kPairLanes);
        store_weights(static_cast<Bf16*>(weights_) + vector * kPairLanes, x[0][r], x[1][r]);
      } else {
#pragma GCC unroll 2
        for (int i = 0; i < kTiles; ++i) {
          const int64_t vector = contiguous_weight_vector<Step, kRows>(r, key / kLanes + i);
          store(static_cast<float*>(weights_) + vector * kLanes, x[i][r]);
        }
      }
    }
  }
  void finish() {
    store(result_.sum, zero_f32());
    float sums[kLanes];
    store(sums, sums_);
    for (int r = 0; r < kRows; ++r) {
      const float* x = sums + r * kSumPhases;
      result_.sum[r] = (x[0] + x[1]) + (x[2] + x[3]);
    }
  }

 private:
  // Adds the four partial sums of each of four rows, in ascending order of keys.
  inline __attribute__((always_inline)) void add(const F32 (&x)[kRowsAtOnce]) {
    const __m512 a = _mm512_shuffle_f32x4(x[0].v, x[1].v, 0x44);
    const __m512 b = _mm512_shuffle_f32x4(x[0].v, x[1].v, 0xEE);
    const __m512 c = _mm512_shuffle_f32x4(x[2].v, x[3].v, 0x44);
    const __m512 d = _mm512_shuffle_f32x4(x[2].v, x[3].v, 0xEE);
    sums_ = sums_ + F32{_mm512_shuffle_f32x4(a, c, 0x88)};
    sums_ = sums_ + F32{_mm512_shuffle_f32x4(a, c, 0xDD)};
    sums_ = sums_ + F32{_mm512_shuffle_f32x4(b, d, 0x88)};
    sums_ = sums_ + F32{_mm512_shuffle_f32x4(b, d, 0xDD)};
  }
  const float* scores_;
  void* weights_;
  float scale_;
  AttentionState result_;
  float minus_[kRows];
  F32 sums_ = zero_f32();
};

// Scores of kTiles · kLanes keys; two tiles hide the FMA latency.
template <class Step, int kRows, int kTiles>
inline __attribute__((always_inline)) void contiguous_scores(const std::byte* k, int64_t stride,
                                                             const float* q, float* scores,
                                                             LinePrefetcher& prefetcher) {
  F32 acc[kTiles][kRows];
  const std::byte* row[kTiles][kLanes / 4];
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) acc[i][r] = zero_f32();
#pragma GCC unroll 4
    for (int j = 0; j < kLanes / 4; ++j) row[i][j] = k + (i * kLanes + 4 * j) * stride;
  }
  for (int64_t left = stride; left > 0; left -= 4 * kUnits, q += kUnits * kRowsAtOnce) {
    prefetcher.load<4 * kTiles - 1>();
    F32 x[kTiles][kUnits];
#pragma GCC unroll 2
    for (int i = 0; i < kTiles; ++i) {
      const auto unit_of = [&](int key) __attribute__((always_inline)) {
        return _mm_loadu_ps(reinterpret_cast<const float*>(row[i][key / 4] + key % 4 * stride));
      };
      transpose_key_units(unit_of, x[i]);
#pragma GCC unroll 4
      for (auto& at : row[i]) {
        at += 4 * kUnits;
        __asm__("" : "+r"(at));  // one pointer per four keys: a pointer per key would spill
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kUnits; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        F32 y = Step::spread(reinterpret_cast<const std::byte*>(q + t * kRowsAtOnce + r));
        // Keeps the broadcast beside its FMAs.
        if constexpr (kTiles > 1) __asm__ volatile("" : "+v"(y.v));
#pragma GCC unroll 2
        for (int i = 0; i < kTiles; ++i) acc[i][r] = Step::add(acc[i][r], x[i][t], y);
      }
    }
  }
#pragma GCC unroll 2
  for (int i = 0; i < kTiles; ++i) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) store(scores + r * kKeyBlock + i * kLanes, acc[i][r]);
  }
}

template <class Step, int kRows>
void contiguous_key_rows(const ContiguousDecode& call) {
  constexpr int kTiles = Step::kPairs ? 2 : 1;
  using Softmax = ContiguousSoftmax<Step, kRows, kTiles>;
  constexpr int64_t kKeys = kTiles * kLanes;
  const std::byte* k = call.k;
  const std::byte* end = k + call.blocks * kKeyBlock * call.key_bytes;
  const auto* q = static_cast<const float*>(call.q);
  // The keys pass loads one tile of keys early: most cache lines beside the FMAs, the others
  // beside the softmax, so that memory is never idle.
  const int64_t tile = kKeys * call.key_bytes;
  constexpr int kCalls = (kRows + 1) / 2 * kTiles;
  const int64_t cache_lines = call.key_bytes / (4 * kUnits) / kCalls;
  LinePrefetcher prefetcher(k, end);
  prefetcher.reach(k + tile);
  float* scores = call.scores;
  float* before = call.scores + kRows * kKeyBlock;
  const auto block = [&](const auto& beside) __attribute__((always_inline)) {
    for (int64_t key = 0; key < kKeyBlock; key += kKeys) {
      contiguous_scores<Step, kRows, kTiles>(k, call.key_bytes, q, scores + key, prefetcher);
      beside(key);
      k += tile;
      prefetcher.reach(k + tile);
    }
  };
  block([](int64_t) {});
  for (int64_t i = 1; i < call.blocks; ++i) {
    std::swap(scores, before);
    Softmax softmax(call, i - 1, before);
    block([&](int64_t key) __attribute__((always_inline)) {
      softmax.add_weights(key, prefetcher, cache_lines);
    });
    softmax.finish();
  }
  Softmax softmax(call, call.blocks - 1, scores);
  for (int64_t key = 0; key < kKeyBlock; key += kKeys) softmax.add_weights(key, prefetcher, 0);
  softmax.finish();
  for (int64_t i = 0; call.merged != nullptr && i < call.blocks; ++i) {
    const MergeFactors f = merge_sums(*call.merged, call.results[i], 0);
    // The next block overwrites the excess lanes.
    store(call.factors + i * kContiguousRows, f.before);
    store(call.factors + kContiguousFactors + i * kContiguousRows, f.block);
  }
}

template <class Step>
void contiguous_keys(const ContiguousDecode& call, int64_t rows) {
  for_rows(rows, [&](int64_t, auto count) { contiguous_key_rows<Step, count()>(call); });
}

// Adds kV vectors of values of a block.
template <class Step, class Values, int kRows, int kV>
inline void contiguous_outputs(const ContiguousDecode& call, int64_t block) {
  constexpr int kUnit = Step::kPairs ? 2 : 1;
  constexpr int64_t kParts = kKeyBlock / kUnit / kLanes;
  const std::byte* v = call.v + block * kKeyBlock * call.value_bytes;
  const auto* weights = static_cast<const float*>(call.weights_of(block, kRows, Step::kPairs));
  F32 acc[kRows][kV];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kV; ++c) acc[r][c] = zero_f32();
  }
  for (int64_t part = 0; part < kParts; ++part) {
    const float* weight = weights + contiguous_weight_vector<Step, kRows>(0, part) * kLanes;
    for (int64_t i = 0; i < kLanes; ++i, v += kUnit * call.value_bytes, ++weight) {
      F32 x[kV];
      Values::read_all(v, call.value_bytes, 0, x);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        constexpr auto kVector = contiguous_weight_vector<Step, kRows>;
        const F32 p =
            Step::spread(reinterpret_cast<const std::byte*>(weight + kVector(r, 0) * kLanes));
#pragma GCC unroll 8
        for (int c = 0; c < kV; ++c) acc[r][c] = Step::add(acc[r][c], x[c], p);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    Values::restore_order(acc[r]);
    const bool merges = call.merged != nullptr;
    float* to = (merges ? *call.merged : call.results[block]).output + r * call.output_pitch;
    if (merges) {  // as in merge_rows
      const float* factors = call.factors + block * kContiguousRows + r;
      const F32 before = set1(factors[0]), added = set1(factors[kContiguousFactors]);
#pragma GCC unroll 8
      for (int c = 0; c < kV; ++c) {
        acc[r][c] = fma(acc[r][c], added, load(to + c * kLanes) * before);
      }
    }
#pragma GCC unroll 8
    for (int c = 0; c < kV; ++c) store(to + c * kLanes, acc[r][c]);
  }
}

template <class Step, class Values, int kRows>
void contiguous_value_rows(const ContiguousDecode& call, int64_t block) {
  constexpr int kV = static_cast<int>(kContiguousColumns) / kLanes;
  if (call.value_size == kContiguousColumns)
    return contiguous_outputs<Step, Values, kRows, kV>(call, block);
  if constexpr (kRows <= kContiguousRows / 2)
    contiguous_outputs<Step, Values, kRows, 2 * kV>(call, block);
}

template <class Step, class Values>
void contiguous_values(const ContiguousDecode& call, int64_t block, int64_t rows) {
  for_rows(rows,
           [&](int64_t, auto count) { contiguous_value_rows<Step, Values, count()>(call, block); });
}

template <class Step>
bool contiguous_fits(int64_t key_bytes, int64_t value_size, int64_t rows) {
  const int64_t tile = (Step::kPairs ? 2 : 1) * kLanes * key_bytes;
  return rows <= kContiguousRows && key_bytes % (4 * kUnits) == 0 && tile <= kContiguousTileBytes &&
         (value_size == kContiguousColumns ||
          (value_size == 2 * kContiguousColumns && rows <= kContiguousRows / 2));
}

}  // namespace
}  // namespace lathe::cpu
