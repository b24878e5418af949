// SPDX-License-Identifier: MIT
// Streams of f32 that end in no more than a bias and a short activation: each tile is finished
// among its own last products. Zen 4 stores beside products what has just been computed, but in
// their place what has waited.
#pragma once

#include "targets/cpu/kernels/gemm/brgemm_pipelined.h"
#include "targets/cpu/kernels/gemm/brgemm_tile.h"

namespace lathe::cpu {
namespace {

template <bool kHardSwish>
struct Shallow {
  static constexpr int kRows = 4;  // that images fill
  static constexpr int kVectors = 4;
  static constexpr int kGroups = 4;    // of k, at a time
  static constexpr int kTogether = 2;  // rows whose last products come before those of others
  using Sums = F32[kRows][kVectors];
  using Numbers = F32[kVectors];

  const char* bias;
  int64_t stride, panel_stride, out_stride;
  F32 low;
  Mask last;

  // Row r's number at `a` with the vectors at `b`.
  inline __attribute__((always_inline)) void load_group(Numbers& y, const char* b) const {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      y[v] = GemmF32::load_b(b + v / kPanelVectors * panel_stride + v % kPanelVectors * kLanes * 4);
  }
  inline __attribute__((always_inline)) void add_row(Sums& sums, const Numbers& y, const char* a,
                                                     int r) const {
    const F32 x = GemmF32::broadcast(a + r * stride);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = fma(x, y[v], sums[r][v]);
      __asm__ volatile("" : : "v"(sums[r][v].v));
    }
    __asm__ volatile("" ::: "memory");
  }
  inline __attribute__((always_inline)) void add_group(Sums& sums, const char* a,
                                                       const char* b) const {
    Numbers y;
    load_group(y, b);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) add_row(sums, y, a, r);
  }

  // Sums kAt to kEnd of a tile.
  template <int kAt, int kEnd>
  inline __attribute__((always_inline)) void put(const Sums& sums, char* out) const {
    if constexpr (kAt < kEnd) {
      constexpr int kRow = kAt / kVectors, kVector = kAt % kVectors;
      F32 x = sums[kRow][kVector] + load(reinterpret_cast<const float*>(bias) + kVector * kLanes);
      x = kHardSwish ? hard_swish(x) : max(low, x);
      auto* to = reinterpret_cast<float*>(out + kRow * out_stride) + kVector * kLanes;
      kVector == kVectors - 1 ? store(to, x, last) : store(to, x);
      __asm__ volatile("" ::: "memory");
      put<kAt + 1, kEnd>(sums, out);
    }
  }

  // The last groups of rows from kFirst on, and among them the ends of sums from kDone to kFirst's.
  template <int kFirst, int kDone, int kTurn>
  inline __attribute__((always_inline)) void end(Sums& sums, Numbers& y, const char* a,
                                                 const char* b, char* out) const {
    if constexpr (kFirst < kRows) {
      constexpr int kCount = kFirst + kTogether < kRows ? kTogether : kRows - kFirst;
      constexpr int kTurns = kGroups * kCount, kEnds = kFirst * kVectors - kDone;
      if constexpr (kTurn == kTurns) {
        end<kFirst + kCount, kFirst * kVectors, 0>(sums, y, a, b, out);
      } else {
        constexpr int kGroup = kTurn / kCount;
        if constexpr (kTurn % kCount == 0) load_group(y, b + kGroup * kGroupBytes);
        add_row(sums, y, a + kGroup * 4, kFirst + kTurn % kCount);
        put<kDone + kEnds * kTurn / kTurns, kDone + kEnds*(kTurn + 1) / kTurns>(sums, out);
        end<kFirst, kDone, kTurn + 1>(sums, y, a, b, out);
      }
    } else {
      put<kDone, kRows * kVectors>(sums, out);
    }
  }

  inline __attribute__((always_inline)) void expect(const char* out) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(out + r * out_stride + v * 64 + 63, 1);
    }
  }
};

template <bool kHardSwish>
__attribute__((noinline)) void shallow_columns(const BrgemmCall& call, int64_t row, int64_t rows,
                                               int64_t column) {
  using S = Shallow<kHardSwish>;
  constexpr int kVectors = S::kVectors;
  const SimpleEpilogue& e = *call.epilogue->simple;
  alignas(64) float bias[kVectors * kLanes];
  const Mask last = columns_mask(call, column + (kVectors - 1) * kLanes);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const int64_t c = call.column + column + v * kLanes;
    const Mask m = v == kVectors - 1 ? last : mask_first(kLanes);
    store(bias + v * kLanes, e.bias == nullptr ? set1(-0.0F) : load(e.bias + c, m));
  }
  const bool has_relu = e.has_activation && e.activation == Activation::relu;
  const S shallow{reinterpret_cast<const char*>(bias),
                  call.a_row_stride,
                  call.b_panel_stride,
                  call.out_stride,
                  set1(has_relu ? 0.0F : -__builtin_inff()),
                  last};
  const int64_t stride = call.a_row_stride, k = call.k, tiles = (rows + S::kRows - 1) / S::kRows;
  const int64_t turns = k / S::kGroups - 1;
  const bool asks = call.prefetch_bytes > 0 && column == 0;
  const int64_t pace = asks ? call.prefetch_bytes / (call.rows / S::kRows * (turns + 1)) : 0;
  const auto* later = static_cast<const char*>(call.ahead) + row / S::kRows * (turns + 1) * pace;
  // The processor itself foresees shorter rows.
  const bool is_run = stride >= 64 && stride <= k * 4;
  const bool fetches = call.a_is_cold && column == 0 && is_run;
  const auto* first_b =
      static_cast<const char*>(call.blocks[0].b) + column / kPanelColumns * call.b_panel_stride;
  const char* first_a = static_cast<const char*>(call.blocks[0].a) + row * stride;
  char* first_out = static_cast<char*>(call.out) + row * call.out_stride + column * 4;
  for (int64_t t = 0; t < tiles; ++t) {
    // The last one has as many rows as the others, some of them once more: a call has enough,
    // though a part of it may not.
    const int64_t r = t + 1 < tiles ? t * S::kRows : rows - S::kRows;
    const char *a = first_a + r * stride, *b = first_b;
    char* out = first_out + r * call.out_stride;
    shallow.expect(out);
    const char* below = a + 2 * S::kRows * stride;
    typename S::Sums sums;
#pragma GCC unroll 8
    for (int i = 0; i < S::kRows; ++i) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[i][v] = zero_f32();
    }
    for (int64_t g = 0; g < k % S::kGroups; ++g, a += 4, b += kGroupBytes)
      shallow.add_group(sums, a, b);
    for (int64_t g = 0; g < turns; ++g, a += 4 * S::kGroups, b += S::kGroups * kGroupBytes) {
#pragma GCC unroll 4
      for (int i = 0; i < S::kGroups; ++i) shallow.add_group(sums, a + 4 * i, b + i * kGroupBytes);
      // As much as is read: a line.
      if (fetches) __builtin_prefetch(below);
      below += S::kGroups * S::kRows * 4;
      for (const char* end = later + pace; later < end; later += 64)
        __builtin_prefetch(later, 0, 2);
    }
    typename S::Numbers y;
    shallow.template end<0, 0, 0>(sums, y, a, b, out);
  }
}

// Whether a stream's blocks of four vectors of columns go this way.
inline bool is_shallow(const BrgemmCall& call) {
  const SimpleEpilogue& e = *call.epilogue->simple;
  const bool is_long = e.has_activation && e.activation == Activation::silu;
  return !is_long && e.residual == nullptr && call.block_count == 1 && call.line_pitch == 0 &&
         call.k >= Shallow<false>::kGroups;
}
inline void run_shallow(const BrgemmCall& call, int64_t row, int64_t rows, int64_t column) {
  const SimpleEpilogue& e = *call.epilogue->simple;
  const bool has_hard_swish = e.has_activation && e.activation == Activation::hard_swish;
  has_hard_swish ? shallow_columns<true>(call, row, rows, column)
                 : shallow_columns<false>(call, row, rows, column);
}

}  // namespace
}  // namespace lathe::cpu
