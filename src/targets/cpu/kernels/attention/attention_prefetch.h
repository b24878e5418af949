// SPDX-License-Identifier: MIT
// What is fetched while a few query rows pass a block of keys. Only for units compiled for an
// instruction set.
#pragma once

#include "targets/cpu/kernels/attention/attention_softmax.h"

namespace lathe::cpu {
namespace {

// Calls of `fetch` per block, where rows have gaps.
inline int64_t score_fetches(int64_t) { return kKeyBlock / kLanes; }
constexpr int64_t kValueFetches = kSegments;

// The rows that come next, fetched into the first cache while keys or values are multiplied, kStep
// bytes at a time.
class Stream {
 public:
  Stream() = default;
  inline __attribute__((always_inline)) void fetch() {
    if (at_ < end_) touch();
  }
  void fetch_rest() {
    while (at_ < end_) touch();
  }

  // Beside the scores of kLanes keys: the keys `next` further on, or the first values; where rows
  // have gaps, which Feed does not know, also some of their values, if `far`.
  static inline __attribute__((always_inline)) Stream beside_keys(const AttentionBlock& b, bool far,
                                                                  int64_t key, int64_t next) {
    constexpr int64_t kParts = kSegment / kLanes;
    const int64_t part = key / kLanes % kParts, then = key + next;
    if (far && b.next_v->tight_bytes == 0) cpu::fetch(*b.next_v);
    if (then >= b.keys) return {b.next_v->tight[0], b.next_v->tight_bytes, part, kParts};
    const std::byte* rows = b.k_tight ? b.k_segments[then / kSegment] : nullptr;
    return {rows, b.key_bytes, then / kLanes % kParts, kParts};
  }
  // Beside the values of kSegment keys, of which there are as many passes as parts: the values that
  // follow, or the next block's first keys.
  static inline __attribute__((always_inline)) Stream beside_values(const AttentionBlock& b,
                                                                    bool far, int64_t key,
                                                                    int64_t part, int64_t parts) {
    if (far && b.next_k->tight_bytes == 0) cpu::fetch(*b.next_k);
    const int64_t then = key + kSegment;
    if (then >= b.keys) return {b.next_k->tight[0], b.next_k->tight_bytes, part, parts};
    const std::byte* rows = b.v_tight ? b.v_segments[then / kSegment] : nullptr;
    return {rows, b.value_bytes, part, parts};
  }

 private:
  static constexpr int64_t kStep = 256;
  // Part `part` of `parts` of the rows of kSegment keys; null: nothing.
  Stream(const std::byte* rows, int64_t row_bytes, int64_t part, int64_t parts) {
    if (rows == nullptr) return;
    const int64_t share = kSegment * row_bytes / parts;
    at_ = rows + part * share;
    end_ = at_ + share;
  }
  void touch() {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kStep; i += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(at_ + i), _MM_HINT_T0);
    }
    at_ += kStep;
  }
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
};

// What is fetched into the second cache: the values of the block and then the keys of the next one,
// a few lines at a time all through the block's work, softmax included, so that memory is never
// idle. Processors drop what is more than a few at once.
class Prefetcher {
 public:
  explicit Prefetcher(const AttentionBlock& b) {
    const auto add = [&](const AttentionPrefetch& ahead) {
      for (int64_t i = 0; ahead.tight_bytes > 0 && i < kSegments; ++i) {
        const std::byte* rows = ahead.tight[i];
        if (rows == nullptr) continue;
        if (parts_end_ == 0 || parts_[parts_end_ - 1].end != rows) {
          parts_[parts_end_++].begin = rows;
        }
        parts_[parts_end_ - 1].end = rows + kSegment * ahead.tight_bytes;
      }
    };
    add(*b.next_v);
    add(*b.next_k);
    next_part();
  }
  template <int kLines>
  inline __attribute__((always_inline)) void take() {
#pragma GCC unroll 8
    for (int i = 0; i < kLines; ++i) {
      if (at_ >= end_) {
        if (part_ == parts_end_) return;
        next_part();
      }
      _mm_prefetch(reinterpret_cast<const char*>(at_), _MM_HINT_T1);
      at_ += 64;
    }
  }

 private:
  struct Part {
    const std::byte* begin;
    const std::byte* end;
  };
  void next_part() {
    if (part_ == parts_end_) return;
    at_ = parts_[part_].begin;
    end_ = parts_[part_++].end;
  }
  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
  int part_ = 0;
  int parts_end_ = 0;
  Part parts_[2 * kSegments];
};

}  // namespace
}  // namespace lathe::cpu
