// SPDX-License-Identifier: MIT
// GEMM of blocks of 16 quantised rows and packed panels, for vectors of 16 elements. Codes are
// unpacked in registers on ports that the dot products leave idle; accumulators stay in registers
// for all of k.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_gemv.h"

namespace lathe::cpu {
namespace {

// Register block: two panels times kRows rows. kMinimums: the panels have minimums in the place of
// zero points that are floats, and the rows' starts are totals of elements.
template <int kBits, int kRows, bool kMinimums>
class PackedTile {
 public:
  PackedTile(const PackedPanels& p, const QuantisedRows& rows) : p_(p), rows_(rows) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) acc_[i][r] = zero_f32();
    }
  }

  inline void multiply() {
    const uint8_t* cell = p_.data;
    if (p_.block < kTile) {
      for (int64_t b = 0; b < p_.blocks; b += 2, cell += p_.cell_bytes) {
        const int8_t* const a = codes_at(b * 16);
        add_half<0>(cell, b, a);
        if (b + 1 < p_.blocks) add_half<1>(cell, b + 1, a);
      }
      return;
    }
    int64_t k = 0;
    for (int64_t b = 0; b < p_.blocks; ++b, cell += p_.cell_bytes) {
      Exact exact;
      start(exact, cell, 0, b);
      const uint8_t* const end = cell + p_.scales_at;
      for (const uint8_t* tile = cell; tile < end; tile += kTileBytes<kBits>, k += kTile) {
        if ((k & kTile) == 0) {
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            __builtin_prefetch(rows_.prefetch + k * kPanel + r * kStep, 0, 2);
          }
        }
        add_quads<0, 8>(exact, tile, codes_at(k));
      }
      add_scaled(exact, cell, 0, b);
    }
  }

  // Adds the bias and stores the valid rows and columns.
  inline void store_to(const ColumnRange& y, int64_t rows) const {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const int64_t left = y.columns - i * kPanel;
      if (left <= 0) return;
      const Mask mask = mask_first(left < kPanel ? left : kPanel);
      const F32 bias = y.bias == nullptr ? zero_f32() : load(y.bias + i * kPanel, mask);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        if (r >= rows) break;
        const F32 x = y.bias == nullptr ? acc_[i][r] : acc_[i][r] + bias;
        store(y.y + r * y.y_stride + i * kPanel, x, mask);
      }
    }
  }

 private:
  using Exact = I32[2][kRows];

  const int8_t* codes_at(int64_t k) const {
    return rows_.codes + (k & -kStep) * kPanel + (k & (kStep - 1));
  }

  // Starts the accumulators of a block with the zero-point compensation.
  inline void start(Exact& exact, const uint8_t* cell, int64_t slot, int64_t block) const {
    if (kMinimums || p_.zeros == ZeroKind::floats) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) exact[0][r] = exact[1][r] = zero_i32();
      return;
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      exact[0][r] = exact[1][r] = set1(rows_.starts[block * kPanel + r]);
    }
    if (p_.zeros == ZeroKind::middle) return;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const I32 zeros = load_zeros<kBits>(p_, {cell + i * p_.panel_bytes, slot}, 0);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) exact[i][r] = multiply_int16(zeros, exact[i][r]);
    }
  }

  // Adds kCount quads of a tile from kFirst on; `a` points to the tile's first element. Quads of
  // one vector are consecutive, so that few vectors are live.
  template <int kFirst, int kCount>
  inline void add_quads(Exact& exact, const uint8_t* tile, const int8_t* a) const {
    constexpr int kStride = kCount < 8 || kBits == 8 ? 1 : kBits == 4 ? 4 : 2;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int q = kFirst + i * kStride % kCount + i * kStride / kCount;
      const I32 first = quad<kBits>(tile, q, 0), second = quad<kBits>(tile + p_.panel_bytes, q, 0);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const I32 codes = broadcast_quad(a + r * kStep + q * 4);
        exact[0][r] = dot_codes<kBits>(exact[0][r], first, codes);
        exact[1][r] = dot_codes<kBits>(exact[1][r], second, codes);
      }
      if (i % 2 == 0) continue;
      // The barrier completes the dot products of two quads. Otherwise the compiler loads
      // whole tiles first and spills accumulators.
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        __asm__ volatile("" : "+v"(exact[0][r].v), "+v"(exact[1][r].v) : : "memory");
      }
    }
  }

  inline void add_scaled(const Exact& exact, const uint8_t* cell, int64_t slot, int64_t block) {
    const F32 weights[2] = {load_scales(p_, {cell, slot}, 0),
                            load_scales(p_, {cell + p_.panel_bytes, slot}, 0)};
    if constexpr (kMinimums) return add_with_minimums(exact, weights, cell, slot, block);
    if (p_.zeros == ZeroKind::floats) return add_with_zeros(exact, weights, cell, slot, block);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 row_scale = set1(rows_.scales[block * kPanel + r]);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        acc_[i][r] = fma(to_f32(exact[i][r]), row_scale * weights[i], acc_[i][r]);
      }
    }
  }

  inline void add_with_zeros(const Exact& exact, const F32 (&weights)[2], const uint8_t* cell,
                             int64_t slot, int64_t block) {
    const F32 zeros[2] = {load_float_zeros(p_, {cell, slot}, 0),
                          load_float_zeros(p_, {cell + p_.panel_bytes, slot}, 0)};
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 row_scale = set1(rows_.scales[block * kPanel + r]);
      const int32_t start = rows_.starts[block * kPanel + r];
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        const F32 sum = add_zero_points(to_f32(exact[i][r]), zeros[i], start);
        acc_[i][r] = fma(sum, row_scale * weights[i], acc_[i][r]);
      }
    }
  }

  inline void add_with_minimums(const Exact& exact, const F32 (&weights)[2], const uint8_t* cell,
                                int64_t slot, int64_t block) {
    const F32 minimums[2] = {load_float_zeros(p_, {cell, slot}, 0),
                             load_float_zeros(p_, {cell + p_.panel_bytes, slot}, 0)};
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 row_scale = set1(rows_.scales[block * kPanel + r]);
      const F32 sum = from_bits(set1(rows_.starts[block * kPanel + r]));
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        acc_[i][r] = fma(to_f32(exact[i][r]), row_scale * weights[i], acc_[i][r]);
        acc_[i][r] = fma(sum, minimums[i], acc_[i][r]);
      }
    }
  }

  // Blocks of 16 elements: a tile has two.
  template <int kHalf>
  inline void add_half(const uint8_t* cell, int64_t block, const int8_t* a) {
    Exact exact;
    start(exact, cell, kHalf, block);
    add_quads<kHalf * 4, 4>(exact, cell, a);
    add_scaled(exact, cell, kHalf, block);
  }

  const PackedPanels p_;
  const QuantisedRows rows_;
  F32 acc_[2][kRows];
};

// Rows of y are strided: without prefetch, each store misses. Prefetches to L2: rows some KiB apart
// share few L1 sets.
inline void prefetch_y_rows(const ColumnRange& y, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < y.columns; c += kPanel) {
      __builtin_prefetch(y.y + r * y.y_stride + c, 0, 2);
    }
  }
}

template <int kBits, bool kMinimums, int kRows>
inline void multiply_packed_tile(const PackedPanels& p, QuantisedRows rows, int64_t row,
                                 int64_t valid_rows, ColumnRange y) {
  rows.codes += row * kStep;
  rows.prefetch += row * kStep;
  rows.scales += row;
  rows.starts += row;
  y.y += row * y.y_stride;
  const int64_t left = valid_rows - row < kRows ? valid_rows - row : kRows;
  prefetch_y_rows(y, left);
  PackedTile<kBits, kRows, kMinimums> tile(p, rows);
  tile.multiply();
  tile.store_to(y, left);
}

// Padding rows are zeros; the choice of tiles multiplies few of them. Tiles of six rows need VNNI:
// without it, dot products need extra registers.
#if defined(__AVX512VNNI__)
constexpr bool kHasVnni = true;
#else
constexpr bool kHasVnni = false;
#endif
template <int kBits, bool kMinimums = false>
void multiply_packed(const PackedPanels& p, const QuantisedRows& rows, int64_t valid_rows,
                     const ColumnRange& y) {
  int64_t row = 0;
  if constexpr (kHasVnni) {
    const int64_t sixes = valid_rows == 12 ? 12 : valid_rows % 5 == 1 ? 6 : 0;
    for (; row < sixes; row += 6)
      multiply_packed_tile<kBits, kMinimums, 6>(p, rows, row, valid_rows, y);
  }
  for (; row < valid_rows; row += 5)
    multiply_packed_tile<kBits, kMinimums, 5>(p, rows, row, valid_rows, y);
}

}  // namespace
}  // namespace lathe::cpu
