// SPDX-License-Identifier: MIT
// The microkernel: K loop of a tile and its epilogue.
#pragma once

#include "targets/cpu/kernels/gemm/brgemm_tile.h"

namespace lathe::cpu {
namespace {

// Tiles that interleave the f32 epilogue with the last groups of k, some rows at a time: storing
// the whole tile at once would fill the store queue. Integer types: only the largest tiles.
template <class P, int kRows, int kVectors>
constexpr bool kEpilogueByRows =
    kAppliesInRegisters<P, kRows, kVectors> && kRegisters == 32 && kVectors > 1 &&
    kRows* kVectors >= 12 &&
    (P::kGroup == 1 || (P::kGroup == 4 && kVectors == kTileVectors<P> && kRows > kMaxDecodeRows));
template <int kVectors>
constexpr int kEpilogueRows = 8 / kVectors;
template <class P>
constexpr int kEpilogueGroups = P::kGroup == 4 ? 8 : 4;

// Accumulates the last groups of k for rows kFirst to kEnd.
template <int kFirst, int kEnd, class P, int kRows, int kVectors>
inline __attribute__((always_inline)) void multiply_last(const Rows<kRows>& rows, const char* b,
                                                         int64_t panel_stride,
                                                         Tile<P, kRows, kVectors>& tile) {
  const auto step = [&]<int kOffset>() __attribute__((always_inline)) {
    tile.template step<kOffset, kFirst, kEnd>(
        [&](int r) __attribute__((always_inline)) { return P::broadcast(rows[r] + kOffset * 4); },
        b, panel_stride);
  };
  step.template operator()<0>();
  step.template operator()<1>();
  step.template operator()<2>();
  step.template operator()<3>();
  if constexpr (kEpilogueGroups<P> == 8) {
    step.template operator()<4>();
    step.template operator()<5>();
    step.template operator()<6>();
    step.template operator()<7>();
  }
}
template <int kFirst, int kRows, int kVectors>
constexpr int kEpilogueRowsEnd =
    kFirst + kEpilogueRows<kVectors> < kRows ? kFirst + kEpilogueRows<kVectors> : kRows;

// Applies the epilogue by rows. `multiplies`: the last groups of k are still to be accumulated.
template <int kFirst, class P, int kRows, int kVectors>
inline __attribute__((always_inline)) void apply_rows(const BrgemmCall& call, int64_t row,
                                                      int64_t column, Mask last, bool multiplies,
                                                      const Rows<kRows>& rows, const char* b,
                                                      int64_t panel_stride,
                                                      Tile<P, kRows, kVectors>& tile) {
  if constexpr (kFirst < kRows) {
    constexpr int kEnd = kEpilogueRowsEnd<kFirst, kRows, kVectors>;
    if (multiplies) multiply_last<kFirst, kEnd>(rows, b, panel_stride, tile);
    apply_in_registers<P, true, kFirst, kEnd - kFirst>(call, row, column, last, tile);
    apply_rows<kEnd>(call, row, column, last, multiplies, rows, b, panel_stride, tile);
  }
}

// Full-height tiles only: other heights are rare, and each adds compile time.
template <class P, int kRows, int kVectors>
constexpr bool kEpilogueScaled =
    kEpilogueByRows<P, kRows, kVectors> && kHasIntegers<P> && kRows == max_rows<P>(kVectors);

// apply_rows for an epilogue that only scales integers. In this order Zen 4 overlaps all but the
// multiplications with the next FMAs: 32 cycles per 6 × 4 tile, 24 of them FMAs. Accumulator by
// accumulator takes 50.
template <int kFirst, class P, int kRows, int kVectors>
inline __attribute__((always_inline)) void apply_scaled(char* out, int64_t out_stride,
                                                        const float* scale, const Rows<kRows>& rows,
                                                        const char* b, int64_t panel_stride,
                                                        Tile<P, kRows, kVectors>& tile) {
  if constexpr (kFirst < kRows) {
    constexpr int kEnd = kEpilogueRowsEnd<kFirst, kRows, kVectors>;
    multiply_last<kFirst, kEnd>(rows, b, panel_stride, tile);
    F32 x[kEnd - kFirst][kVectors];
    const auto each = [&](auto&& next) __attribute__((always_inline)) {
#pragma GCC unroll 4
      for (int r = 0; r < kEnd - kFirst; ++r) {
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) {
          F32 y = next(r, v);
          __asm__ volatile("" : "+v"(y.v));
          x[r][v] = y;
        }
      }
    };
    each([&](int r, int v)
             __attribute__((always_inline)) { return to_f32(tile.sums[kFirst + r][v]); });
    each([&](int r, int v)
             __attribute__((always_inline)) { return x[r][v] * load(scale + v * kLanes); });
#pragma GCC unroll 4
    for (int r = 0; r < kEnd - kFirst; ++r, out += out_stride) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        store(reinterpret_cast<float*>(out) + v * kLanes, x[r][v]);
      }
    }
    __asm__ volatile("" : : : "memory");
    apply_scaled<kEnd>(out, out_stride, scale, rows, b, panel_stride, tile);
  }
}
// The scale at the call's first column, if the epilogue only scales and all the tile's columns are
// in C.
template <int kVectors>
inline const float* scale_if_only(const BrgemmCall& call, int64_t column) {
  const SimpleEpilogue& e = *call.epilogue->simple;
  const bool is_all = e.scale != nullptr && e.bias == nullptr && e.residual == nullptr &&
                      !e.has_activation && column + kVectors * kLanes <= call.columns;
  return is_all ? e.scale + call.column + column : nullptr;
}

// Runs tiles that are stacked vertically. Shared setup runs once: instructions between two tiles'
// FMAs occupy queue entries.
template <class P, int kRows, int kVectors>
void multiply(const BrgemmCall& call, int64_t row, int64_t column, TilePrefetch prefetch,
              int64_t tiles) {
  const int64_t b_offset = column / kPanelColumns * call.b_panel_stride;
  const bool in_registers = applies_in_registers<P, kRows, kVectors>(call, column);
  const Mask last_columns = columns_mask(call, column + (kVectors - 1) * kLanes);
  const int64_t stride = call.a_row_stride, panel_stride = call.b_panel_stride;
  const int64_t groups = call.k / P::kGroup, rest = call.k % P::kGroup;
  const bool to_f32_rows = kEpilogueByRows<P, kRows, kVectors> && in_registers &&
                           (P::kGroup == 1 || call.epilogue->simple->out == ElementType::f32);
  const bool by_rows = to_f32_rows && groups >= kEpilogueGroups<P> && rest == 0;
  StorePrefetch<kRows, kVectors> first_stores(call, row, column);
  const bool prefetches = kRows > kMaxDecodeRows && !call.out_is_cached;
  // Prefetch of C: in the last iterations of the last block, one row each, if it has enough.
  const int64_t iterations = groups / 4 - (by_rows ? kEpilogueGroups<P> / 4 : 0);
  const bool prefetches_by_row = prefetches && iterations >= kRows;
  const int64_t iterations_left = iterations < 3 * kRows ? iterations - kRows : 2 * kRows;
  const int64_t next_rows_step = kRows * prefetch.rows;
  const float* scale = nullptr;  // integer types
  if constexpr (kEpilogueScaled<P, kRows, kVectors>) {
    if (by_rows && call.block_count > 0) scale = scale_if_only<kVectors>(call, column);
  }
  for (; tiles > 0; --tiles) {
    StorePrefetch<kRows, kVectors> stores = first_stores;
    if (prefetches && !prefetches_by_row) stores.prefetch_all();
    Tile<P, kRows, kVectors> tile;
    init_sums(call, row, column, in_registers, last_columns, tile);
    Rows<kRows> rows;
    const char* b = nullptr;
    for (int64_t i = 0; i < call.block_count; ++i) {
      const char* a = static_cast<const char*>(call.blocks[i].a) + row * stride;
      b = static_cast<const char*>(call.blocks[i].b) + b_offset;
      PanelPrefetch<kVectors> panel_prefetch(b, panel_stride, prefetch);
      if constexpr (P::kGroup == 1) {
        if (prefetch.other != nullptr) panel_prefetch.redirect(prefetch.other);
      }
      const char* next_rows = prefetch.rows != 0 ? a + kRows * stride : a;
      rows = Rows<kRows>(a, stride);
      const auto step = [&]<int kOffset>() __attribute__((always_inline)) {
        tile.template step<kOffset>(
            [&](int r)
                __attribute__((always_inline)) { return P::broadcast(rows[r] + kOffset * 4); },
            b, panel_stride);
      };
      for (int64_t g = 0; g < groups % 4; ++g) {
        step.template operator()<0>();
        rows.advance(4);
        b += kGroupBytes;
      }
      // Four groups per iteration: pointer additions compete with FMAs for ports.
      const bool is_last = i + 1 == call.block_count;
      const int64_t last_prefetch = prefetches_by_row && is_last ? iterations_left : groups;
      for (int64_t g = is_last ? iterations : groups / 4; g > 0; --g) {
        step.template operator()<0>();
        step.template operator()<1>();
        step.template operator()<2>();
        step.template operator()<3>();
        rows.advance(16);
        b += 4 * kGroupBytes;
        panel_prefetch.prefetch();
        // Prefetches the next rows of A into L1.
#pragma GCC unroll 4
        for (int at = 0; at < kRows * 16; at += 64) __builtin_prefetch(next_rows + at);
        next_rows += next_rows_step;
        stores.prefetch_row((g <= last_prefetch + kRows) & (g > last_prefetch));
      }
      if (rest != 0) multiply_rest(tile, rows, rest, b, panel_stride);
    }
    bool is_done = false;
    if constexpr (kEpilogueByRows<P, kRows, kVectors>) {
      is_done = to_f32_rows;
      if constexpr (kEpilogueScaled<P, kRows, kVectors>) {
        if (scale != nullptr) {
          char* out = static_cast<char*>(call.out) + row * call.out_stride + column * 4;
          apply_scaled<0>(out, call.out_stride, scale, rows, b, panel_stride, tile);
        }
      }
      if (to_f32_rows && scale == nullptr) {
        apply_rows<0>(call, row, column, last_columns, by_rows && call.block_count > 0, rows, b,
                      panel_stride, tile);
      }
    }
    if (is_done) {
    } else if (call.epilogue == nullptr && column + kVectors * kLanes <= call.columns) {
      store_sums(call, row, column, tile);
    } else if (in_registers) {
      constexpr bool kStored = kEpilogueByRows<P, kRows, kVectors> && P::kGroup == 1;
      if constexpr (kAppliesInRegisters<P, kRows, kVectors> && !kStored) {
        apply_in_registers<P, P::kGroup == 1, 0, kRows>(call, row, column, last_columns, tile);
      }
    } else {
      apply_epilogue(call, row, column, tile);
    }
    row += kRows;
    first_stores.out += kRows * first_stores.stride;
    prefetch.begin += prefetch.step;
  }
}

}  // namespace
}  // namespace lathe::cpu
