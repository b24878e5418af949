// SPDX-License-Identifier: MIT
// Paged decode: some query rows of all KV heads times full blocks of a paged KV cache. A page has
// some keys of every head, so that only a pass over all heads reads memory sequentially. The
// computation is that of attention_decode_contiguous_avx512.h; bits equal those of
// attention_decode_kernel.h.
//
// A tile is kSegment keys of one head. The heads' queries, scores and accumulators share L1 with
// the streamed keys, which evict some of them. Queries are the largest part. Read sequentially,
// they would start another hardware prefetch stream and end that of the keys. That costs a quarter
// of the speed on Zen 4, so queries are bit-reversed. Include only in units compiled for AVX-512.
#pragma once

#include "targets/cpu/kernels/attention/attention_decode_contiguous_avx512.h"

namespace lathe::cpu {
namespace {

static_assert(kSegment == kLanes);
static_assert(kQueryCacheLine == kUnits * kRowsAtOnce &&
              kMaxQueryCacheLines * kQueryCacheLine == kContiguousTileBytes / kSegment);

// Iterates over tiles, block by block in the order of memory.
class PageTiles {
 public:
  PageTiles(const PagedDecode& x, const std::byte* const* pages, int64_t head_bytes,
            int64_t row_bytes)
      : pages_(pages),
        end_(pages + x.blocks * kSegments / x.segments),
        head_bytes_(head_bytes),
        tile_bytes_(kSegment * row_bytes),
        heads_(x.heads),
        segments_(x.segments),
        rows_(pages[0]),
        at_(pages[0]) {}
  const std::byte* at() const { return at_; }
  int64_t head() const { return head_; }
  // First and last tile of the head in a block.
  bool first() const { return page_ + segment_ == 0; }
  bool last() const { return page_ + segment_ + 1 == kSegments; }
  // After the last tile, stays on its page.
  void advance() {
    if (++segment_ < segments_) {
      at_ += tile_bytes_;
      return;
    }
    segment_ = 0;
    if (++head_ < heads_) {
      rows_ += head_bytes_;
    } else {
      head_ = 0;
      page_ = (page_ + segments_) % kSegments;
      if (pages_ + 1 < end_) ++pages_;
      rows_ = *pages_;
    }
    at_ = rows_;
  }

 private:
  const std::byte* const* pages_;
  const std::byte* const* end_;
  int64_t head_bytes_;
  int64_t tile_bytes_;
  int64_t heads_;
  int64_t segments_;
  int64_t page_ = 0;     // segments of the block before the page
  int64_t segment_ = 0;  // segment of the page
  int64_t head_ = 0;
  const std::byte* rows_;  // of the head
  const std::byte* at_;
};

// Scores of kSegment keys: x[row].
template <class Step, int kRows>
inline __attribute__((always_inline)) void page_scores(const std::byte* k, int64_t stride,
                                                       const float* queries, const int32_t* places,
                                                       F32 (&x)[kRowsAtOnce],
                                                       LinePrefetcher& prefetcher) {
  const std::byte* row[kLanes / 4];
#pragma GCC unroll 4
  for (int i = 0; i < kLanes / 4; ++i) row[i] = k + 4 * i * stride;
#pragma GCC unroll 4
  for (F32& sum : x) sum = zero_f32();
  for (int64_t left = stride; left > 0; left -= 4 * kUnits) {
    prefetcher.load<3>();
    const float* q = queries + *places++;
    F32 unit[kUnits];
    const auto unit_of = [&](int key) __attribute__((always_inline)) {
      return _mm_loadu_ps(reinterpret_cast<const float*>(row[key / 4] + key % 4 * stride));
    };
    transpose_key_units(unit_of, unit);
#pragma GCC unroll 4
    for (auto& at : row) {
      at += 4 * kUnits;
      __asm__("" : "+r"(at));  // a pointer per key would spill
    }
#pragma GCC unroll 4
    for (int t = 0; t < kUnits; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const F32 y = Step::spread(reinterpret_cast<const std::byte*>(q + t * kRowsAtOnce + r));
        x[r] = Step::add(x[r], unit[t], y);
      }
    }
  }
}

// Softmax of a head's block, kSegment keys at a time. A tile's scores are [row][kSegment].
template <class Step, int kRows>
class PageSoftmax {
 public:
  explicit PageSoftmax(float* state) : state_(state) {}
  void clear() { store(state_, set1(-kInfinity)); }
  // Updates the running maxima, four for each row.
  inline __attribute__((always_inline)) void update_maxima(const F32 (&scores)[kRowsAtOnce]) {
    F32 x[kRowsAtOnce];
    part(scores, x);
    store(state_, max(load(state_), max(max(x[0], x[1]), max(x[2], x[3]))));
  }
  // Starts the weights of a block after `update_maxima` of all its keys.
  void begin(float scale, const AttentionState& result) {
    F32 x = load(state_);
    x = max(x, F32{_mm512_shuffle_ps(x.v, x.v, 0x4E)});
    x = max(x, F32{_mm512_shuffle_ps(x.v, x.v, 0xB1)}) * set1(scale);
    const __m512i rows = _mm512_setr_epi32(0, 4, 8, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    const F32 low = set1(-kInfinity);
    x = keep(mask_first(kRows), F32{_mm512_permutexvar_ps(rows, x.v)}, low);
    store(result.largest, x);
    store(state_ + 2 * kLanes, select(equal(x, low), zero_f32(), negate(x)));
    store(state_ + kLanes, zero_f32());
    clear();
  }
  template <class Beside>
  inline __attribute__((always_inline)) void add_weights(const float* scores, float scale,
                                                         void* weights, const Beside& beside) {
    F32 x[kRowsAtOnce];
#pragma GCC unroll 4
    for (int r = 0; r < kRowsAtOnce; ++r) {
      x[r] = zero_f32();
      if (r >= kRows) continue;
      if (r % 2 == 0) beside();
      x[r] = weight_of<Step::kPairs>(load(scores + r * kLanes), set1(scale),
                                     set1(state_[2 * kLanes + r]));
    }
    F32 part_sums[kRowsAtOnce], sums = load(state_ + kLanes);
    part(x, part_sums);
#pragma GCC unroll 4
    for (const F32& some : part_sums) sums = sums + some;
    store(state_ + kLanes, sums);
    if constexpr (Step::kPairs) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; r += 2) {
        store_weights(static_cast<Bf16*>(weights) + r * kLanes, x[r], x[r + 1]);
      }
    } else {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) store(static_cast<float*>(weights) + r * kLanes, x[r]);
    }
  }
  void finish(const AttentionState& result) {
    store(result.sum, zero_f32());
    for (int r = 0; r < kRows; ++r) {
      const float* x = state_ + kLanes + r * kSumPhases;
      result.sum[r] = (x[0] + x[1]) + (x[2] + x[3]);
    }
  }

 private:
  // to[i]: keys 4 · i to 4 · i + 3 of each row.
  static inline __attribute__((always_inline)) void part(const F32 (&x)[kRowsAtOnce],
                                                         F32 (&to)[kRowsAtOnce]) {
    const __m512 a = _mm512_shuffle_f32x4(x[0].v, x[1].v, 0x44);
    const __m512 b = _mm512_shuffle_f32x4(x[0].v, x[1].v, 0xEE);
    const __m512 c = _mm512_shuffle_f32x4(x[2].v, x[3].v, 0x44);
    const __m512 d = _mm512_shuffle_f32x4(x[2].v, x[3].v, 0xEE);
    to[0] = {_mm512_shuffle_f32x4(a, c, 0x88)};
    to[1] = {_mm512_shuffle_f32x4(a, c, 0xDD)};
    to[2] = {_mm512_shuffle_f32x4(b, d, 0x88)};
    to[3] = {_mm512_shuffle_f32x4(b, d, 0xDD)};
  }
  float* state_;  // maxima, partial sums, negated maxima
};

// All keys. Each block's softmax runs beside the scores of the next one, which overwrite its own.
// Cache lines are loaded one tile early. kBytes: key_bytes as a constant; 0: variable.
template <class Step, int kRows, int64_t kBytes>
void page_keys(const PagedDecode& call) {
  using Softmax = PageSoftmax<Step, kRows>;
  constexpr int64_t kTile = kRows * kLanes;
  const int64_t bytes = kBytes > 0 ? kBytes : call.key_bytes;
  const int64_t tile = kSegment * bytes, tiles = call.heads * kSegments;
  constexpr int kCalls = (kRows + 1) / 2;
  const int64_t cache_lines = bytes / (4 * kUnits) / kCalls;
  PageTiles now(call, call.k, call.k_head, bytes), next = now;
  LinePrefetcher(next.at(), next.at() + tile).reach(next.at() + tile);
  next.advance();
  for (int64_t head = 0; head < call.heads; ++head) {
    Softmax(call.softmax + head * kPageSoftmax).clear();
  }
  auto* weights = static_cast<std::byte*>(call.weights);
  const AttentionState* before = call.results;
  for (int64_t block = 0; block <= call.blocks; ++block) {
    if (block > 1) before += call.heads;
    float* scores = call.scores;
    for (int64_t t = 0; t < tiles; ++t, scores += kTile) {
      const int64_t head = now.head();
      LinePrefetcher prefetcher(next.at(), next.at() + tile);
      Softmax softmax(call.softmax + head * kPageSoftmax);
      if (block > 0) {
        if (now.first()) softmax.begin(call.scale, before[head]);
        softmax.add_weights(scores, call.scale, weights, [&]() __attribute__((always_inline)) {
          prefetcher.load_some(cache_lines);
        });
        if (now.last()) softmax.finish(before[head]);
        weights += kTile * (Step::kPairs ? 2 : 4);
      }
      const std::byte* k = now.at();
      const std::byte* end = next.at() + tile;
      now.advance();
      next.advance();
      if (block == call.blocks) continue;
      F32 x[kRowsAtOnce];
      page_scores<Step, kRows>(k, bytes, call.queries + head * bytes, call.places, x, prefetcher);
      prefetcher.reach(end);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) store(scores + r * kLanes, x[r]);
      softmax.update_maxima(x);
    }
  }
}

inline void page_factors(const PagedDecode& call) {
  if (call.merged == nullptr) return;
  const int64_t all = call.blocks * call.heads;
  for (int64_t i = 0; i < all; ++i) {
    const MergeFactors f = merge_sums(call.merged[i % call.heads], call.results[i], 0);
    // The next store overwrites the excess lanes.
    store(call.factors + i * kContiguousRows, f.before);
    store(call.factors + all * kContiguousRows + kLanes + i * kContiguousRows, f.block);
  }
}

// All values. Memory holds a head's accumulators between its tiles.
template <class Step, class Values, int kRows, int kV>
void page_values(const PagedDecode& call) {
  constexpr int kUnit = Step::kPairs ? 2 : 1;
  constexpr int64_t kPitch = kSegment / kUnit, kColumns = kV * kLanes;
  constexpr int64_t kBytes = kColumns * (Step::kPairs ? 2 : 4);
  const int64_t all = call.blocks * call.heads;
  const auto* weights = static_cast<const float*>(call.weights);
  PageTiles tiles(call, call.v, call.v_head, kBytes);
  for (int64_t block = 0; block < call.blocks; ++block) {
    for (int64_t t = 0; t < call.heads * kSegments; ++t, tiles.advance()) {
      const int64_t head = tiles.head();
      const bool first = tiles.first(), last = tiles.last();
      float* sums = call.outputs + head * kRows * kColumns;
      F32 acc[kRows][kV];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
        for (int c = 0; c < kV; ++c) {
          acc[r][c] = first ? zero_f32() : load(sums + r * kColumns + c * kLanes);
        }
      }
      const std::byte* v = tiles.at();
      for (int64_t key = 0; key < kSegment; key += kUnit, v += kUnit * kBytes, ++weights) {
        F32 x[kV];
        Values::read_all(v, kBytes, 0, x);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const F32 p = Step::spread(reinterpret_cast<const std::byte*>(weights + r * kPitch));
#pragma GCC unroll 8
          for (int c = 0; c < kV; ++c) acc[r][c] = Step::add(acc[r][c], x[c], p);
        }
      }
      weights += (kRows - 1) * kPitch;
      const bool merges = last && call.merged != nullptr;
      float* to = sums;
      int64_t pitch = kColumns;
      if (last) {
        to = merges ? call.merged[head].output : call.results[block * call.heads + head].output;
        pitch = call.output_pitch;
      }
      const float* factors = call.factors + (block * call.heads + head) * kContiguousRows;
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r, to += pitch) {
        if (last) Values::restore_order(acc[r]);
        if (merges) {  // as in merge_rows
          const F32 before = set1(factors[r]),
                    added = set1(factors[all * kContiguousRows + kLanes + r]);
#pragma GCC unroll 8
          for (int c = 0; c < kV; ++c) {
            acc[r][c] = fma(acc[r][c], added, load(to + c * kLanes) * before);
          }
        }
#pragma GCC unroll 8
        for (int c = 0; c < kV; ++c) store(to + c * kLanes, acc[r][c]);
      }
    }
  }
}

template <class Step, class Values>
void paged_decode(const PagedDecode& call, int64_t rows) {
  constexpr int kV = static_cast<int>(kContiguousColumns) / kLanes;
  for_rows(rows, [&](int64_t, auto count) {
    // Short rows: a constant size saves address arithmetic.
    constexpr int64_t kShort = Step::kPairs ? 128 : 0;
    if (call.key_bytes == kShort) {
      page_keys<Step, count(), kShort>(call);
    } else {
      page_keys<Step, count(), 0>(call);
    }
    page_factors(call);
    if (call.value_size == kContiguousColumns) return page_values<Step, Values, count(), kV>(call);
    if constexpr (count() <= kContiguousRows / 2) page_values<Step, Values, count(), 2 * kV>(call);
  });
}

}  // namespace
}  // namespace lathe::cpu
