// SPDX-License-Identifier: MIT
// Include only in units compiled for an instruction set.
#pragma once

#include "targets/cpu/kernels/gemm/half_panels.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

constexpr int kHalfVectors = 2;  // of a panel
constexpr int64_t kHalfColumns = kHalfVectors * kLanes;
// Prefetch distance along a panel.
constexpr int64_t kHalfPrefetch = 1024;

template <class T, int kRows, int kPanels>
inline void half_tile(const HalfPanelsCall& call, const std::byte* b, int64_t columns,
                      float* sums) {
  F32 acc[kRows][kPanels * kHalfVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kPanels * kHalfVectors; ++v) acc[r][v] = zero_f32();
  }
  const auto* a = static_cast<const std::byte*>(call.a);
  constexpr int64_t kStepBytes = kHalfColumns * 2;
  for (int64_t t = 0; t < call.k; ++t, b += kStepBytes) {
    F32 x[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      float value;
      __builtin_memcpy(&value, a + r * call.a_row_stride + t * 4, sizeof value);
      x[r] = set1(value);
    }
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      const std::byte* panel = b + p * call.b_panel_stride;
      __builtin_prefetch(panel + kHalfPrefetch, 0, 2);
#pragma GCC unroll 2
      for (int v = 0; v < kHalfVectors; ++v) {
        const F32 w = load_f32(reinterpret_cast<const T*>(panel) + v * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          acc[r][p * kHalfVectors + v] = fma(x[r], w, acc[r][p * kHalfVectors + v]);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    float* to = sums + r * call.sums_stride;
#pragma GCC unroll 16
    for (int v = 0; v < kPanels * kHalfVectors; ++v) {
      const int64_t left = columns - v * kLanes;
      if (left >= kLanes) {
        store(to + v * kLanes, acc[r][v]);
      } else if (left > 0) {
        store(to + v * kLanes, acc[r][v], mask_first(left));
      }
    }
  }
}

// Tiles of kPanels panels from a column on; returns the column behind them.
template <class T, int kRows, int kPanels>
inline int64_t half_panels(const HalfPanelsCall& call, int64_t column) {
  for (; column + (kPanels - 1) * kHalfColumns < call.columns; column += kPanels * kHalfColumns) {
    const auto* b =
        static_cast<const std::byte*>(call.b) + column / kHalfColumns * call.b_panel_stride;
    half_tile<T, kRows, kPanels>(call, b, call.columns - column, call.sums + column);
  }
  return column;
}

// The accumulators of most panels hide the latency of FMAs. Two rows share the elements of B.
template <class T>
void half_rows(HalfPanelsCall call) {
  constexpr int kMost = kRegisters == 32 ? 8 : 4;
  for (; call.rows > 1; call.rows -= 2) {
    half_panels<T, 2, 1>(call, half_panels<T, 2, kMost / 2>(call, 0));
    call.a = static_cast<const std::byte*>(call.a) + 2 * call.a_row_stride;
    call.sums += 2 * call.sums_stride;
  }
  if (call.rows == 0) return;
  half_panels<T, 1, 1>(call, half_panels<T, 1, 2>(call, half_panels<T, 1, kMost>(call, 0)));
}

void half_multiply(const HalfPanelsCall& call) {
  if (call.type == ElementType::bf16) return half_rows<Bf16>(call);
  half_rows<F16>(call);
}

// `count` is a multiple of a panel's columns.
void half_widen(ElementType type, const void* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    store(to + i, type == ElementType::bf16 ? load_f32(static_cast<const Bf16*>(from) + i)
                                            : load_f32(static_cast<const F16*>(from) + i));
  }
}

constexpr HalfPanelsKernel kHalfPanels = {half_multiply, half_widen};

}  // namespace
}  // namespace lathe::cpu
