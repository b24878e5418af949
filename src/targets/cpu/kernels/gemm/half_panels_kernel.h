// SPDX-License-Identifier: MIT
// Include only in units compiled for an instruction set.
#pragma once

#include <type_traits>
#include <utility>

#include "targets/cpu/kernels/gemm/half_panels.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

constexpr int kHalfVectors = 2;  // of a panel
constexpr int64_t kHalfColumns = kHalfVectors * kLanes;
constexpr int kHalfTile = kRegisters == 32 ? 8 : 4;              // panels of the widest tile
constexpr int64_t kHalfStride = kMaxGroupPanels * kHalfColumns;  // of the accumulators of a group
// Prefetch distance, across the end of a group. The hardware prefetcher alone falls behind
// where a core reads more than about 40 GB/s.
constexpr int64_t kHalfPrefetch = 4096;
// Rows of B that stay in L1 while several tiles read them.
constexpr int64_t kHalfStrip = 64;

// Rows of panels of a group, and the accumulators of their columns.
struct HalfStrip {
  const float* a = nullptr;
  int64_t a_row_stride = 0;  // bytes
  const void* b = nullptr;
  int64_t b_row_stride = 0;  // elements
  int64_t k = 0;
  float* sums = nullptr;
};

// A row of a panel as f32. bf16: even columns, then odd ones, by a shift and a mask. Columns in
// order would take two shuffles and two shifts: from L2, 54 instead of 76 GB/s on two cores of
// Cascade Lake.
inline void load_panel(const Bf16* b, F32 (&x)[kHalfVectors]) {
  const I32 pairs = load(reinterpret_cast<const int32_t*>(b));
  x[0] = from_bits(shift_left<16>(pairs));
  x[1] = from_bits(pairs & set1(static_cast<int32_t>(0xFFFF0000)));
}
inline void load_panel(const F16* b, F32 (&x)[kHalfVectors]) {
  x[0] = load_f32(b);
  x[1] = load_f32(b + kLanes);
}

// Adds to the accumulators of kRows rows and kPanels panels, which have the order of load_panel.
template <class T, int kRows, int kPanels>
void half_tile(const HalfStrip& strip) {
  constexpr int kVectors = kPanels * kHalfVectors;
  F32 acc[kRows][kVectors];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) acc[r][v] = load(strip.sums + r * kHalfStride + v * kLanes);
  }
  const auto* b = static_cast<const T*>(strip.b);
  const auto* a = reinterpret_cast<const std::byte*>(strip.a);
  for (int64_t t = 0; t < strip.k; ++t, b += strip.b_row_stride) {
    F32 x[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      float value;
      __builtin_memcpy(&value, a + r * strip.a_row_stride + t * 4, sizeof value);
      x[r] = set1(value);
    }
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      const T* const panel = b + p * kHalfColumns;
      if (p * kHalfColumns * 2 % 64 == 0) __builtin_prefetch(panel + kHalfPrefetch / 2, 0, 3);
      F32 w[kHalfVectors];
      load_panel(panel, w);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kHalfVectors; ++v) {
          F32& sum = acc[r][p * kHalfVectors + v];
          sum = fma(x[r], w[v], sum);
        }
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store(strip.sums + r * kHalfStride + v * kLanes, acc[r][v]);
  }
}

// Stores the accumulators of `count` columns in their order.
template <class T>
inline void store_columns(const float* sums, int64_t count, float* to) {
  if constexpr (std::is_same_v<T, F16>) {
    __builtin_memcpy(to, sums, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (; count > 0; count -= kHalfColumns, sums += kHalfColumns, to += kHalfColumns) {
    float panel[kHalfColumns];
    for (int i = 0; i < kLanes; ++i) {
      panel[2 * i] = sums[i];
      panel[2 * i + 1] = sums[kLanes + i];
    }
    const int64_t valid = count < kHalfColumns ? count : kHalfColumns;
    __builtin_memcpy(to, panel, static_cast<size_t>(valid) * sizeof(float));
  }
}

// The accumulators of most panels hide the latency of FMAs; two rows share the elements of B.
using HalfTile = void (*)(const HalfStrip& strip);
constexpr int kHalfPairTile = kHalfTile / 2;
struct HalfTiles {
  HalfTile one[kHalfTile];      // by panels - 1
  HalfTile two[kHalfPairTile];  // two rows
  void (*store)(const float* sums, int64_t count, float* to);
};
template <class T, int... kPanels, int... kPairPanels>
constexpr HalfTiles half_tiles(std::integer_sequence<int, kPanels...>,
                               std::integer_sequence<int, kPairPanels...>) {
  return {{&half_tile<T, 1, kPanels + 1>...},
          {&half_tile<T, 2, kPairPanels + 1>...},
          &store_columns<T>};
}
template <class T>
constexpr HalfTiles half_tiles() {
  return half_tiles<T>(std::make_integer_sequence<int, kHalfTile>(),
                       std::make_integer_sequence<int, kHalfPairTile>());
}
constexpr HalfTiles kBf16Tiles = half_tiles<Bf16>(), kF16Tiles = half_tiles<F16>();

// Adds `panels` panels to the accumulators of `rows` rows, in as few tiles as there are.
inline void half_strip(const HalfTiles& tiles, HalfStrip strip, int64_t rows, int64_t panels) {
  const auto* const b = static_cast<const uint16_t*>(strip.b);
  float* const sums = strip.sums;
  for (int64_t row = 0; row < rows; row += 2) {
    const bool pair = row + 1 < rows;
    const int64_t most = pair ? kHalfPairTile : kHalfTile;
    for (int64_t done = 0; done < panels; done += most) {
      strip.b = b + done * kHalfColumns;
      strip.sums = sums + row * kHalfStride + done * kHalfColumns;
      const int64_t last = (panels - done < most ? panels - done : most) - 1;
      (pair ? tiles.two : tiles.one)[last](strip);
    }
    strip.a = reinterpret_cast<const float*>(reinterpret_cast<const std::byte*>(strip.a) +
                                             2 * strip.a_row_stride);
  }
}

// Calls f(first row of B in the group, elements between rows, panels, column of the call) for the
// parts of groups that the call has.
template <class F>
inline void for_half_groups(const HalfPanelsCall& call, F f) {
  const HalfGroups groups(call.b_panels);
  const int64_t end = call.panel + (call.columns + kHalfColumns - 1) / kHalfColumns;
  int64_t group = groups.group_of(call.panel);
  for (int64_t panel = call.panel; panel < end; ++group) {
    const int64_t first = groups.first(group), behind = groups.first(group + 1);
    const int64_t stride = (behind - first) * kHalfColumns;
    const int64_t panels = (behind < end ? behind : end) - panel;
    const auto* const b = static_cast<const uint16_t*>(call.b) + first * kHalfColumns * call.b_k +
                          call.first * stride + (panel - first) * kHalfColumns;
    f(b, stride, panels, (panel - call.panel) * kHalfColumns);
    panel += panels;
  }
}

void half_multiply(const HalfPanelsCall& call) {
  const HalfTiles& tiles = call.type == ElementType::bf16 ? kBf16Tiles : kF16Tiles;
  for_half_groups(call, [&](const uint16_t* b, int64_t stride, int64_t panels, int64_t column) {
    alignas(64) float sums[kMaxHalfRows * kHalfStride];
    __builtin_memset(sums, 0, static_cast<size_t>(call.rows * kHalfStride) * sizeof(float));
    const bool one_tile = call.rows <= 2 && panels <= (call.rows == 2 ? kHalfPairTile : kHalfTile);
    const int64_t step = one_tile ? call.k : kHalfStrip;
    for (int64_t k = 0; k < call.k; k += step) {
      const int64_t left = call.k - k;
      half_strip(tiles,
                 {static_cast<const float*>(call.a) + k, call.a_row_stride, b + k * stride, stride,
                  left < step ? left : step, sums},
                 call.rows, panels);
    }
    const int64_t width = panels * kHalfColumns;
    const int64_t valid = call.columns - column < width ? call.columns - column : width;
    for (int64_t r = 0; r < call.rows; ++r) {
      tiles.store(sums + r * kHalfStride, valid, call.sums + r * call.sums_stride + column);
    }
  });
}

void half_widen(const HalfPanelsCall& call, float* to) {
  const int64_t panel_size = call.k * kHalfColumns;
  const bool bf16 = call.type == ElementType::bf16;
  for_half_groups(call, [&](const uint16_t* b, int64_t stride, int64_t panels, int64_t column) {
    float* const first = to + column / kHalfColumns * panel_size;
    for (int64_t k = 0; k < call.k; ++k, b += stride) {
      float* at = first + k * kHalfColumns;
      for (int64_t i = 0; i < panels * kHalfColumns; i += kLanes) {
        if (i % kHalfColumns == 0) __builtin_prefetch(b + i + kHalfPrefetch / 2, 0, 3);
        store(at + i % kHalfColumns, bf16 ? load_f32(reinterpret_cast<const Bf16*>(b + i))
                                          : load_f32(reinterpret_cast<const F16*>(b + i)));
        if (i % kHalfColumns != 0) at += panel_size;
      }
    }
  });
}

constexpr HalfPanelsKernel kHalfPanels = {half_multiply, half_widen};

}  // namespace
}  // namespace lathe::cpu
