// SPDX-License-Identifier: MIT
// What is fetched while a few query rows pass a block of keys. Only for units compiled for an
// instruction set.
#pragma once

#include "targets/cpu/kernels/attention_softmax.h"

namespace lathe::cpu {
namespace {

// Calls of `fetch` per block, where rows have gaps.
inline int64_t score_fetches(int64_t) { return kKeyBlock / kLanes; }
constexpr int64_t kValueFetches = kSegments;

// What is fetched while keys or values are multiplied, kStep bytes at a time: into the first cache
// the rows that come next, and into the second one those that come half a block later, so that
// memory is never idle. Processors drop the latter where many are under way.
class Stream {
 public:
  inline __attribute__((always_inline)) void fetch() {
    if (far_.begin < far_.end) far_.begin = touch<false>(far_.begin);
    if (near_.begin < near_.end) near_.begin = touch<true>(near_.begin);
  }
  void fetch_rest() {
    while (far_.begin < far_.end || near_.begin < near_.end) fetch();
  }

  // Beside the scores of kLanes keys: their values, if `far`, and the keys `next` further on.
  static inline __attribute__((always_inline)) Stream beside_keys(const AttentionBlock& b, bool far,
                                                                  int64_t key, int64_t next) {
    constexpr int64_t kParts = kSegment / kLanes;
    const int64_t part = key / kLanes % kParts, then = key + next;
    Stream s;
    if (far) s.aim_far(*b.next_v, key / kSegment, part, kParts);
    if (then < b.keys) {
      const std::byte* rows = b.k_tight ? b.k_segments[then / kSegment] : nullptr;
      s.near_ = Bytes(rows, b.key_bytes, then / kLanes % kParts, kParts);
    } else {
      s.near_ = Bytes(b.next_v->tight[0], b.next_v->tight_bytes, part, kParts);
    }
    return s;
  }
  // Beside the values of kSegment keys, of which there are as many passes as parts: the next
  // block's keys, if `far`, and the values that follow.
  static inline __attribute__((always_inline)) Stream beside_values(const AttentionBlock& b,
                                                                    bool far, int64_t key,
                                                                    int64_t part, int64_t parts) {
    const int64_t segment = key / kSegment;
    Stream s;
    if (far) s.aim_far(*b.next_k, segment, part, parts);
    if (key + kSegment < b.keys) {
      const std::byte* rows = b.v_tight ? b.v_segments[segment + 1] : nullptr;
      s.near_ = Bytes(rows, b.value_bytes, part, parts);
    } else {
      s.near_ = Bytes(b.next_k->tight[0], b.next_k->tight_bytes, part, parts);
    }
    return s;
  }

 private:
  static constexpr int64_t kStep = 256;
  // Part `part` of `parts` of the rows of kSegment keys; null: nothing.
  struct Bytes {
    Bytes() = default;
    Bytes(const std::byte* rows, int64_t row_bytes, int64_t part, int64_t parts) {
      if (rows == nullptr) return;
      const int64_t share = kSegment * row_bytes / parts;
      begin = rows + part * share;
      end = begin + share;
    }
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
  };
  template <bool kNear>
  static const std::byte* touch(const std::byte* at) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < kStep; i += 64) {
      const auto* line = reinterpret_cast<const char*>(at + i);
      kNear ? _mm_prefetch(line, _MM_HINT_T0) : _mm_prefetch(line, _MM_HINT_T1);
    }
    return at + kStep;
  }
  inline __attribute__((always_inline)) void aim_far(AttentionAhead& ahead, int64_t segment,
                                                     int64_t part, int64_t parts) {
    if (ahead.tight_bytes == 0) {  // rows have gaps, or there are none
      cpu::fetch(ahead);
      return;
    }
    far_ = Bytes(ahead.tight[segment], ahead.tight_bytes, part, parts);
  }
  Bytes far_;
  Bytes near_;
};

// The same where arithmetic takes about as long as memory: the values of the block and then the
// keys of the next one, a few lines at a time all through the block's work, softmax included. More
// at once would be dropped, and memory idle between.
class Feed {
 public:
  explicit Feed(const AttentionBlock& b) {
    const auto add = [&](const AttentionAhead& ahead) {
      for (int64_t i = 0; ahead.tight_bytes > 0 && i < kSegments; ++i) {
        if (ahead.tight[i] == nullptr) continue;
        parts_[parts_end_].begin = ahead.tight[i];
        parts_[parts_end_++].end = ahead.tight[i] + kSegment * ahead.tight_bytes;
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
