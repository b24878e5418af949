// SPDX-License-Identifier: MIT
// A few query rows against a block of keys: vectors run along the keys for the scores and along the
// values for the product, so that keys and values pass once, at the speed of memory. Each element
// is the same chain of fused products as in attention_kernel.h. Only for units compiled for an
// instruction set.
#pragma once

#include "targets/cpu/kernels/attention_kernel.h"
#include "targets/cpu/kernels/attention_softmax_rows.h"

namespace lathe::cpu {
namespace {

constexpr int kFewRows = 8;
constexpr int kRowsAtOnce = 4;
constexpr int64_t kFetchKeys = 4;   // between fetches
static_assert(kFewRows <= kLanes);  // queries are [unit][kLanes]

// acc[row] += x[t] · q[t][row] for the t of a chunk.
template <class Step, int kRows>
inline __attribute__((always_inline)) void add_chunk(const F32 (&x)[kLanes], int64_t count,
                                                     const float* q, float* acc) {
  F32 sum[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) sum[r] = load(acc + r * kLanes);
  const auto step = [&](int64_t t) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto* at = reinterpret_cast<const std::byte*>(q + t * kLanes + r);
      sum[r] = Step::add(sum[r], x[t], Step::spread(at));
    }
  };
  if (count == kLanes) {
#pragma GCC unroll 16
    for (int64_t t = 0; t < kLanes; ++t) step(t);
  } else {
    for (int64_t t = 0; t < count; ++t) step(t);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) store(acc + r * kLanes, sum[r]);
}

struct UnitKeys {  // as they are multiplied
  static F32 read(const AttentionBlock&, const std::byte* row, int64_t unit) {
    return load(reinterpret_cast<const float*>(row) + unit);
  }
  static F32 read(const AttentionBlock&, const std::byte* row, int64_t unit, int64_t count) {
    return load(reinterpret_cast<const float*>(row) + unit, mask_first(count));
  }
};

// Adds the products of up to kLanes keys and units [unit, unit + count) to acc[row].
template <class Step, class Keys>
inline void score_tile(const AttentionBlock& b, int64_t rows, int64_t key, int64_t unit,
                       int64_t count, float* acc) {
  const std::byte* k = b.k_segments[key / kSegment] + key % kSegment * b.k_stride;
  const int64_t keys = b.keys - key < kLanes ? b.keys - key : kLanes;
  F32 x[kLanes];
  if (keys == kLanes && count == kLanes) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = Keys::read(b, k + i * b.k_stride, unit);
  } else {
    for (int i = 0; i < kLanes; ++i) {
      x[i] = i < keys ? Keys::read(b, k + i * b.k_stride, unit, count) : zero_f32();
    }
  }
  transpose(x);
  const float* q = static_cast<const float*>(b.q) + unit * kLanes;
  int64_t r = 0;
  for (; r + kRowsAtOnce <= rows; r += kRowsAtOnce) {
    add_chunk<Step, kRowsAtOnce>(x, count, q + r, acc + r * kLanes);
  }
  for (; r < rows; ++r) add_chunk<Step, 1>(x, count, q + r, acc + r * kLanes);
}

template <class Step, class Keys = UnitKeys>
void score_rows(const AttentionBlock& b, int64_t rows) {
  constexpr int kTiles = 4;  // of keys in turns: a chain of sums would wait for itself
  const int64_t units = b.size / (Step::kPairs ? 2 : 1);
  for (int64_t first = 0; first < b.keys; first += kTiles * kLanes) {
    float acc[kTiles][kFewRows * kLanes];
    for (auto& of_tile : acc) {
      for (int i = 0; i < kFewRows; ++i) store(of_tile + i * kLanes, zero_f32());
    }
    for (int64_t unit = 0; unit < units; unit += kLanes) {
      const int64_t count = units - unit < kLanes ? units - unit : kLanes;
      for (int i = 0; i < kTiles && first + i * kLanes < b.keys; ++i) {
        fetch(*b.next_v);
        score_tile<Step, Keys>(b, rows, first + i * kLanes, unit, count, acc[i]);
      }
    }
    for (int i = 0; i < kTiles && first + i * kLanes < b.keys; ++i) {
      for (int64_t r = 0; r < rows; ++r) {
        store(b.scores + r * kKeyBlock + first + i * kLanes, load(acc[i] + r * kLanes));
      }
    }
  }
}

struct SingleValues {  // of one key; pairs are of that key and the next one
  static F32 read(const std::byte* row, int64_t, bool, int64_t at, Mask mask) {
    return load(reinterpret_cast<const float*>(row) + at, mask);
  }
};

// kV vectors of values of kRows rows.
template <class Step, class Values, int kRows, int kV>
inline void value_rows(const AttentionBlock& b, int64_t at, int64_t row, Mask mask) {
  constexpr int kUnit = Step::kPairs ? 2 : 1;
  constexpr int64_t kPitch = kKeyBlock / kUnit;
  const auto* weights =
      static_cast<const float*>(Step::kPairs ? b.weights : b.scores) + row * kPitch;
  const Mask all = mask_first(kLanes);
  F32 acc[kRows][kV];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kV; ++c) acc[r][c] = zero_f32();
  }
  const auto add_key = [&](const std::byte* v, int64_t key) {
    F32 x[kV];
#pragma GCC unroll 4
    for (int c = 0; c < kV; ++c) {
      x[c] =
          Values::read(v, b.v_stride, key + 1 < b.keys, at + c * kLanes, c + 1 == kV ? mask : all);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto* weight = reinterpret_cast<const std::byte*>(weights + r * kPitch + key / kUnit);
      const F32 p = Step::spread(weight);
#pragma GCC unroll 4
      for (int c = 0; c < kV; ++c) acc[r][c] = Step::add(acc[r][c], x[c], p);
    }
  };
  for (int64_t first = 0; first < b.keys; first += kFetchKeys) {
    fetch(*b.next_k);
    const std::byte* v = b.v_segments[first / kSegment] + first % kSegment * b.v_stride;
    const int64_t end = b.keys < first + kFetchKeys ? b.keys : first + kFetchKeys;
    for (int64_t key = first; key < end; key += kUnit, v += kUnit * b.v_stride) add_key(v, key);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int c = 0; c < kV; ++c) {
      store(b.product + (row + r) * b.product_pitch + at + c * kLanes, acc[r][c]);
    }
  }
}

template <class Step, class Values, int kRows>
inline void value_columns(const AttentionBlock& b, int64_t row) {
  constexpr int kV = kRegisters == 32 ? 4 : 2;
  int64_t at = 0;
  for (; at + kV * kLanes <= b.value_size; at += kV * kLanes) {
    value_rows<Step, Values, kRows, kV>(b, at, row, mask_first(kLanes));
  }
  for (; at < b.value_size; at += kLanes) {
    const int64_t left = b.value_size - at;
    value_rows<Step, Values, kRows, 1>(b, at, row, mask_first(left < kLanes ? left : kLanes));
  }
}

template <class Step>
int64_t score_fetches(int64_t size) {
  const int64_t units = size / (Step::kPairs ? 2 : 1);
  return kKeyBlock / kLanes * ((units + kLanes - 1) / kLanes);
}

template <class Step, class Values>
void all_value_rows(const AttentionBlock& b, int64_t rows) {
  int64_t row = 0;
  for (; row + kRowsAtOnce <= rows; row += kRowsAtOnce) {
    value_columns<Step, Values, kRowsAtOnce>(b, row);
  }
  for (; row < rows; ++row) value_columns<Step, Values, 1>(b, row);
}

template <class Step, class Values>
void attend_rows(const AttentionBlock& b, int64_t rows) {
  score_rows<Step>(b, rows);
  softmax_rows<Step::kPairs>(b, rows);
  all_value_rows<Step, Values>(b, rows);
}

}  // namespace
}  // namespace lathe::cpu
