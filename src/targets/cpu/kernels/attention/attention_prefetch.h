// SPDX-License-Identifier: MIT
// Prefetch beside the decode kernels. Include only in units compiled for an instruction set.
#pragma once

#include "targets/cpu/kernels/attention/attention_softmax.h"

namespace lathe::cpu {
namespace {

// Calls of `prefetch` per block, for strided rows.
inline int64_t score_prefetches(int64_t) { return kKeyBlock / kLanes; }
constexpr int64_t kValuePrefetches = kSegments;

// Prefetches the next rows into L1 beside keys or values, kStep bytes at a time.
class L1Prefetcher {
 public:
  L1Prefetcher() = default;
  inline __attribute__((always_inline)) void prefetch() {
    if (at_ < end_) prefetch_step();
  }
  void prefetch_rest() {
    while (at_ < end_) prefetch_step();
  }

  // Beside the scores of kLanes keys: the keys `next` further on, or the first values. If `l2`,
  // also prefetches strided values, which L2Prefetcher does not cover.
  static inline __attribute__((always_inline)) L1Prefetcher beside_keys(const AttentionBlock& b,
                                                                        bool l2, int64_t key,
                                                                        int64_t next) {
    constexpr int64_t kParts = kSegment / kLanes;
    const int64_t part = key / kLanes % kParts, then = key + next;
    if (l2 && b.next_v->contiguous_bytes == 0) cpu::prefetch(*b.next_v);
    if (then >= b.keys) return {b.next_v->contiguous[0], b.next_v->contiguous_bytes, part, kParts};
    const std::byte* rows = b.k_contiguous ? b.k_segments[then / kSegment] : nullptr;
    return {rows, b.key_bytes, then / kLanes % kParts, kParts};
  }
  // Beside the values of kSegment keys, in `parts` passes: the next values, or the next block's
  // first keys.
  static inline __attribute__((always_inline)) L1Prefetcher beside_values(const AttentionBlock& b,
                                                                          bool l2, int64_t key,
                                                                          int64_t part,
                                                                          int64_t parts) {
    if (l2 && b.next_k->contiguous_bytes == 0) cpu::prefetch(*b.next_k);
    const int64_t then = key + kSegment;
    if (then >= b.keys) return {b.next_k->contiguous[0], b.next_k->contiguous_bytes, part, parts};
    const std::byte* rows = b.v_contiguous ? b.v_segments[then / kSegment] : nullptr;
    return {rows, b.value_bytes, part, parts};
  }

 private:
  static constexpr int64_t kStep = 256;
  // Part `part` of `parts` of the rows of kSegment keys; null: nothing.
  L1Prefetcher(const std::byte* rows, int64_t row_bytes, int64_t part, int64_t parts) {
    if (rows == nullptr) return;
    const int64_t share = kSegment * row_bytes / parts;
    at_ = rows + part * share;
    end_ = at_ + share;
  }
  void prefetch_step() {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kStep; i += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(at_ + i), _MM_HINT_T0);
    }
    at_ += kStep;
  }
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
};

// Prefetches the values of the block and then the keys of the next one into L2. It spreads them
// over the whole block, so that memory is never idle. Of each segment it prefetches the first half;
// the hardware prefetcher, which stops at the end of a page, continues. Prefetches of the whole
// segment occupy the miss buffers: decode is 5 % slower on Cascade Lake. Processors drop prefetches
// when the miss buffers are full.
class L2Prefetcher {
 public:
  explicit L2Prefetcher(const AttentionBlock& b) {
    const auto add = [&](const AttentionPrefetch& next) {
      for (int64_t i = 0; next.contiguous_bytes > 0 && i < kSegments; ++i) {
        const std::byte* rows = next.contiguous[i];
        if (rows != nullptr) parts_[parts_end_++] = {rows, kSegment * next.contiguous_bytes};
      }
    };
    add(*b.next_v);
    add(*b.next_k);
    next_part();
  }
  // Some prefetches lie after the segment if its bytes are not a multiple.
  template <int kCacheLines>
  inline __attribute__((always_inline)) void prefetch() {
    if (at_ >= end_) {
      if (part_ == parts_end_) return;
      next_part();
    }
    if (at_ < half_) {
#pragma GCC unroll 16
      for (int i = 0; i < kCacheLines; ++i) {
        _mm_prefetch(reinterpret_cast<const char*>(at_ + i * 64), _MM_HINT_T1);
      }
    }
    at_ += kCacheLines * 64;
  }

 private:
  struct Part {
    const std::byte* begin;
    int64_t bytes;
  };
  void next_part() {
    if (part_ == parts_end_) return;
    const Part& part = parts_[part_++];
    at_ = part.begin;
    half_ = at_ + part.bytes / 2;
    end_ = at_ + part.bytes;
  }
  const std::byte* at_ = nullptr;
  const std::byte* half_ = nullptr;
  const std::byte* end_ = nullptr;
  int part_ = 0;
  int parts_end_ = 0;
  Part parts_[2 * kSegments];
};

}  // namespace
}  // namespace lathe::cpu
