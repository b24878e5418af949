// SPDX-License-Identifier: MIT
// A few query rows against many whole blocks of a cache whose keys lie side by side, and whose
// values do: the keys of all blocks, each block's softmax beside the scores of the next one, and
// then the values of all. Number by number what attention_rows.h computes block by block.
//
// Memory is then read in two long streams, in which some processors themselves fetch further ahead,
// and more lines at once, than they can be told to (host_fetches_along_loads). On a Zen 4 a stream
// is lost, and some 1,000 cycles with it, when two dozen lines of another one miss the first cache
// in a short time, and slowed by a few that follow one another. Hence keys, whose rows are read
// sixteen at a time, are touched line by line before; scores do not leave the first cache; and
// weights, which are needed late and come from the second one, lie in an order that is no stream
// (`reversed`). Only for units compiled for AVX-512.
#pragma once

#include <utility>

#include "targets/cpu/kernels/attention/attention_decode_kernel.h"

namespace lathe::cpu {
namespace {

static_assert(kContiguousRows == kRowsAtOnce);
constexpr int64_t kPairLanes = 2 * kLanes;         // numbers of a vector of pairs
constexpr int64_t kContiguousTileBytes = 8 << 10;  // of keys at a time, and as many ahead

// Two loads per line, in the order of memory: of each half, as one load of less than a line is not
// enough for processors to fetch as far ahead. Of a few bytes: whole vectors would take registers
// from the products until they have come.
class LinePrefetcher {
 public:
  LinePrefetcher(const std::byte* begin, const std::byte* end) : at_(begin), end_(end) {}
  template <int kLines>
  inline __attribute__((always_inline)) void take() {
    if (end_ - at_ < kLines * 64) return;
#pragma GCC unroll 8
    for (int i = 0; i < kLines; ++i) touch(at_ + i * 64);
    at_ += kLines * 64;
  }
  inline __attribute__((always_inline)) void take_some(int64_t lines) {
    for (; lines > 0 && at_ < end_; --lines, at_ += 64) touch(at_);
  }
  void reach(const std::byte* to) {
    for (; at_ < to && at_ < end_; at_ += 64) touch(at_);
  }

 private:
  static inline __attribute__((always_inline)) void touch(const std::byte* line) {
#pragma GCC unroll 2
    for (int i = 0; i < 64; i += 32) {
      int32_t x;
      __builtin_memcpy(&x, line + i, sizeof x);
      __asm__ volatile("" ::"r"(x));
    }
  }
  const std::byte* at_;
  const std::byte* end_;
};

// Where a block's weights lie, in vectors of 64 bytes: part `part` of a row.
template <class Step, int kRows>
constexpr int64_t run_weight_line(int64_t row, int64_t part) {
  constexpr int64_t kParts = kKeyBlock / kLanes / (Step::kPairs ? 2 : 1);
  return (kRows > 2 ? reversed(row, 4) : row) * kParts + reversed(part, kParts);
}

// The softmax of a block, for kTiles · kLanes keys at a time beside the scores of the next one.
template <class Step, int kRows, int kTiles>
class ContiguousSoftmax {
 public:
  ContiguousSoftmax(const ContiguousDecode& run, int64_t block, const float* scores)
      : scores_(scores),
        weights_(run.weights_of(block, kRows, Step::kPairs)),
        scale_(run.scale),
        result_(run.results[block]) {
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
  inline __attribute__((always_inline)) void take(int64_t key, LinePrefetcher& ahead,
                                                  int64_t lines) {
    const F32 scale = set1(scale_);
    F32 x[kTiles][kRowsAtOnce];
#pragma GCC unroll 2
    for (int i = 0; i < kTiles; ++i) {
#pragma GCC unroll 4
      for (int r = 0; r < kRowsAtOnce; ++r) {
        x[i][r] = zero_f32();
        if (r >= kRows) continue;
        if (r % 2 == 0) ahead.take_some(lines);
        const F32 score = load(scores_ + r * kKeyBlock + key + i * kLanes);
        x[i][r] = weight_of<Step::kPairs>(score, scale, set1(minus_[r]));
      }
      add(x[i]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      if constexpr (Step::kPairs) {
        static_assert(kTiles == 2);
        const int64_t line = run_weight_line<Step, kRows>(r, key / kPairLanes);
        store_weights(static_cast<Bf16*>(weights_) + line * kPairLanes, x[0][r], x[1][r]);
      } else {
#pragma GCC unroll 2
        for (int i = 0; i < kTiles; ++i) {
          const int64_t line = run_weight_line<Step, kRows>(r, key / kLanes + i);
          store(static_cast<float*>(weights_) + line * kLanes, x[i][r]);
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
  // The four sums of each of four rows, in ascending order of keys.
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

// Scores of kTiles · kLanes keys; with two tiles at once no chain of sums waits for itself.
template <class Step, int kRows, int kTiles>
inline __attribute__((always_inline)) void run_scores(const std::byte* k, int64_t stride,
                                                      const float* q, float* scores,
                                                      LinePrefetcher& ahead) {
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
    ahead.take<4 * kTiles - 1>();
    F32 x[kTiles][kUnits];
#pragma GCC unroll 2
    for (int i = 0; i < kTiles; ++i) {
      const auto unit_of = [&](int key) __attribute__((always_inline)) {
        return _mm_loadu_ps(reinterpret_cast<const float*>(row[i][key / 4] + key % 4 * stride));
      };
      turn_units(unit_of, x[i]);
#pragma GCC unroll 4
      for (auto& at : row[i]) {
        at += 4 * kUnits;
        __asm__("" : "+r"(at));  // else a pointer per key, most of them spilled
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kUnits; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        F32 y = Step::spread(reinterpret_cast<const std::byte*>(q + t * kRowsAtOnce + r));
        if constexpr (kTiles > 1) __asm__ volatile("" : "+v"(y.v));  // here, not all at once before
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
void run_keys_rows(const ContiguousDecode& run) {
  constexpr int kTiles = Step::kPairs ? 2 : 1;
  using Softmax = ContiguousSoftmax<Step, kRows, kTiles>;
  constexpr int64_t kKeys = kTiles * kLanes;
  const std::byte* k = run.k;
  const std::byte* end = k + run.blocks * kKeyBlock * run.key_bytes;
  const auto* q = static_cast<const float*>(run.q);
  // A tile of keys ahead: most lines beside its products, the others beside the softmax, so that
  // memory is never idle.
  const int64_t tile = kKeys * run.key_bytes;
  constexpr int kCalls = (kRows + 1) / 2 * kTiles;
  const int64_t lines = run.key_bytes / (4 * kUnits) / kCalls;
  LinePrefetcher ahead(k, end);
  ahead.reach(k + tile);
  float* scores = run.scores;
  float* before = run.scores + kRows * kKeyBlock;
  const auto block = [&](const auto& beside) __attribute__((always_inline)) {
    for (int64_t key = 0; key < kKeyBlock; key += kKeys) {
      run_scores<Step, kRows, kTiles>(k, run.key_bytes, q, scores + key, ahead);
      beside(key);
      k += tile;
      ahead.reach(k + tile);
    }
  };
  block([](int64_t) {});
  for (int64_t i = 1; i < run.blocks; ++i) {
    std::swap(scores, before);
    Softmax softmax(run, i - 1, before);
    block([&](int64_t key) __attribute__((always_inline)) { softmax.take(key, ahead, lines); });
    softmax.finish();
  }
  Softmax softmax(run, run.blocks - 1, scores);
  for (int64_t key = 0; key < kKeyBlock; key += kKeys) softmax.take(key, ahead, 0);
  softmax.finish();
  for (int64_t i = 0; run.merged != nullptr && i < run.blocks; ++i) {
    const MergeFactors f = merge_sums(*run.merged, run.results[i], 0);
    store(run.factors + i * kContiguousRows,
          f.before);  // the next block overwrites what is too much
    store(run.factors + kContiguousFactors + i * kContiguousRows, f.block);
  }
}

template <class Step>
void run_keys(const ContiguousDecode& run, int64_t rows) {
  for_rows(rows, [&](int64_t, auto count) { run_keys_rows<Step, count()>(run); });
}

// kV vectors of values of a block.
template <class Step, class Values, int kRows, int kV>
inline void run_sums(const ContiguousDecode& run, int64_t block) {
  constexpr int kUnit = Step::kPairs ? 2 : 1;
  constexpr int64_t kParts = kKeyBlock / kUnit / kLanes;
  const std::byte* v = run.v + block * kKeyBlock * run.value_bytes;
  const auto* weights = static_cast<const float*>(run.weights_of(block, kRows, Step::kPairs));
  F32 acc[kRows][kV];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kV; ++c) acc[r][c] = zero_f32();
  }
  for (int64_t part = 0; part < kParts; ++part) {
    const float* weight = weights + run_weight_line<Step, kRows>(0, part) * kLanes;
    for (int64_t i = 0; i < kLanes; ++i, v += kUnit * run.value_bytes, ++weight) {
      F32 x[kV];
      Values::read_all(v, run.value_bytes, 0, x);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        constexpr auto kLine = run_weight_line<Step, kRows>;
        const F32 p =
            Step::spread(reinterpret_cast<const std::byte*>(weight + kLine(r, 0) * kLanes));
#pragma GCC unroll 8
        for (int c = 0; c < kV; ++c) acc[r][c] = Step::add(acc[r][c], x[c], p);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    Values::put_back(acc[r]);
    const bool merges = run.merged != nullptr;
    float* to = (merges ? *run.merged : run.results[block]).product + r * run.product_pitch;
    if (merges) {  // what merge_rows does
      const float* factors = run.factors + block * kContiguousRows + r;
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
void run_values_rows(const ContiguousDecode& run, int64_t block) {
  constexpr int kV = static_cast<int>(kContiguousColumns) / kLanes;
  if (run.value_size == kContiguousColumns) return run_sums<Step, Values, kRows, kV>(run, block);
  if constexpr (kRows <= kContiguousRows / 2) run_sums<Step, Values, kRows, 2 * kV>(run, block);
}

template <class Step, class Values>
void run_values(const ContiguousDecode& run, int64_t block, int64_t rows) {
  for_rows(rows, [&](int64_t, auto count) { run_values_rows<Step, Values, count()>(run, block); });
}

template <class Step>
bool run_fits(int64_t key_bytes, int64_t value_size, int64_t rows) {
  const int64_t tile = (Step::kPairs ? 2 : 1) * kLanes * key_bytes;
  return rows <= kContiguousRows && key_bytes % (4 * kUnits) == 0 && tile <= kContiguousTileBytes &&
         (value_size == kContiguousColumns ||
          (value_size == 2 * kContiguousColumns && rows <= kContiguousRows / 2));
}

}  // namespace
}  // namespace lathe::cpu
