// SPDX-License-Identifier: MIT
// Blocks of 16 quantised rows times packed panels, for vectors of 16 numbers: codes are unpacked in
// registers, by ports that products leave idle, and a row's sums stay there for the whole of k.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_gemv.h"

namespace lathe::cpu {
namespace {

// Two panels times some rows.
template <int kBits, int kRows>
class PackedTile {
 public:
  PackedTile(const PackedPanels& p, const QuantisedRows& rows) : p_(p), rows_(rows) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums_[i][r] = zero_f32();
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
            __builtin_prefetch(rows_.ahead + k * kPanel + r * kStep, 0, 2);
          }
        }
        add_quads<0, 8>(exact, tile, codes_at(k));
      }
      add_scaled(exact, cell, 0, b);
    }
  }

  // With the bias, rows and columns behind the last left out.
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
        const F32 x = y.bias == nullptr ? sums_[i][r] : sums_[i][r] + bias;
        store(y.y + r * y.y_stride + i * kPanel, x, mask);
      }
    }
  }

 private:
  using Exact = I32[2][kRows];

  const int8_t* codes_at(int64_t k) const {
    return rows_.codes + (k & -kStep) * kPanel + (k & (kStep - 1));
  }

  // The zero points' part of a block's sums.
  inline void start(Exact& exact, const uint8_t* cell, int64_t slot, int64_t block) const {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      exact[0][r] = exact[1][r] = set1(rows_.starts[block * kPanel + r]);
    }
    if (p_.zeros == ZeroKind::middle) return;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const I32 zeros = load_zeros<kBits>(p_, {cell + i * p_.panel_bytes, slot}, 0);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) exact[i][r] = multiply_words(zeros, exact[i][r]);
    }
  }

  // Those quads of a tile; `a` at the tile's first element. Quads of the same vector follow each
  // other, so that few vectors are in use at a time.
  template <int kFirst, int kCount>
  inline void add_quads(Exact& exact, const uint8_t* tile, const int8_t* a) const {
    constexpr int kApart = kCount < 8 || kBits == 8 ? 1 : kBits == 4 ? 4 : 2;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      const int q = kFirst + i * kApart % kCount + i * kApart / kCount;
      const I32 first = quad<kBits>(tile, q, 0), second = quad<kBits>(tile + p_.panel_bytes, q, 0);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const I32 codes = broadcast_quad(a + r * kStep + q * 4);
        exact[0][r] = dot_codes<kBits>(exact[0][r], first, codes);
        exact[1][r] = dot_codes<kBits>(exact[1][r], second, codes);
      }
      if (i % 2 == 0) continue;
      // Here all products so far end: else whole tiles are loaded first, and sums leave their
      // registers for that.
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        __asm__ volatile("" : "+v"(exact[0][r].v), "+v"(exact[1][r].v) : : "memory");
      }
    }
  }

  inline void add_scaled(const Exact& exact, const uint8_t* cell, int64_t slot, int64_t block) {
    const F32 weights[2] = {load_scales(p_, {cell, slot}, 0),
                            load_scales(p_, {cell + p_.panel_bytes, slot}, 0)};
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const F32 of_row = set1(rows_.scales[block * kPanel + r]);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        sums_[i][r] = fma(to_f32(exact[i][r]), of_row * weights[i], sums_[i][r]);
      }
    }
  }

  // Blocks of 16: a tile holds two.
  template <int kHalf>
  inline void add_half(const uint8_t* cell, int64_t block, const int8_t* a) {
    Exact exact;
    start(exact, cell, kHalf, block);
    add_quads<kHalf * 4, 4>(exact, cell, a);
    add_scaled(exact, cell, kHalf, block);
  }

  const PackedPanels p_;
  const QuantisedRows rows_;
  F32 sums_[2][kRows];
};

// Lines of y are far apart: storing them would wait for each. Not into the first cache, of which
// rows that are some KiB apart share few lines.
inline void prefetch_results(const ColumnRange& y, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < y.columns; c += kPanel) {
      __builtin_prefetch(y.y + r * y.y_stride + c, 0, 2);
    }
  }
}

template <int kBits, int kRows>
inline void multiply_packed_rows(const PackedPanels& p, QuantisedRows rows, int64_t row,
                                 int64_t valid_rows, ColumnRange y) {
  rows.codes += row * kStep;
  rows.ahead += row * kStep;
  rows.scales += row;
  rows.starts += row;
  y.y += row * y.y_stride;
  const int64_t left = valid_rows - row < kRows ? valid_rows - row : kRows;
  prefetch_results(y, left);
  PackedTile<kBits, kRows> tile(p, rows);
  tile.multiply();
  tile.store_to(y, left);
}

// Rows behind the valid ones are zeros; few of them are multiplied. Tiles of six rows are for
// processors that add products in one instruction: others want registers for their parts.
#if defined(__AVX512VNNI__)
constexpr bool kTakesSix = true;
#else
constexpr bool kTakesSix = false;
#endif
template <int kBits>
void multiply_packed(const PackedPanels& p, const QuantisedRows& rows, int64_t valid_rows,
                     const ColumnRange& y) {
  int64_t row = 0;
  if constexpr (kTakesSix) {
    const int64_t sixes = valid_rows == 12 ? 12 : valid_rows % 5 == 1 ? 6 : 0;
    for (; row < sixes; row += 6) multiply_packed_rows<kBits, 6>(p, rows, row, valid_rows, y);
  }
  for (; row < valid_rows; row += 5) multiply_packed_rows<kBits, 5>(p, rows, row, valid_rows, y);
}

}  // namespace
}  // namespace lathe::cpu
