// SPDX-License-Identifier: MIT
// Few rows times packed weights: a panel's codes are unpacked in registers and read once.
#pragma once

#include "targets/cpu/kernels/weight_only_codes.h"

namespace lathe::cpu {
namespace {

// Ahead of the codes in use: what memory needs to keep streaming across panels.
constexpr int64_t kAhead = 4096;

inline I32 broadcast_quad(const int8_t* from) {
  int32_t word;
  __builtin_memcpy(&word, from, 4);
  return set1(word);
}

// y of one panel: columns behind the last are left alone.
template <int kRows>
inline void store_panel(const F32 (&sums)[kParts][kRows], const ColumnRange& to, int64_t panel) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    const int64_t column = panel * kPanel + part * kLanes;
    const int64_t left = to.columns - column;
    if (left <= 0) return;
    const Mask mask = mask_first(left < kLanes ? left : kLanes);
    const F32 bias = to.bias == nullptr ? zero_f32() : load(to.bias + column, mask);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      F32 x = sums[part][row];
      if (to.bias != nullptr) x = x + bias;
      store(to.y + row * to.y_stride + column, x, mask);
    }
  }
}

// One block of a panel, or two of 16 elements: the halves of tiles are summed apart.
template <int kBits, int kRows>
struct BlockSums {
  I32 low[kParts][kRows];
  I32 high[kParts][kRows];

  // The zero points' part of the sums; block < 0: none.
  static inline void start(I32 (&sums)[kParts][kRows], const PackedPanels& p, const uint8_t* panel,
                           const QuantisedRows& rows, int64_t block) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const I32 zeros = block < 0 ? zero_i32() : load_zeros<kBits>(p, panel, block, part);
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        sums[part][row] =
            block < 0 ? zero_i32() : multiply_words(zeros, set1(rows.sums[block * kRows + row]));
      }
    }
  }

  inline void add_tile(const uint8_t* tile, const int8_t* a) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q) {
        const I32 first = quad<kBits>(tile, q, part);
        const I32 last = quad<kBits>(tile, q + 4, part);
#pragma GCC unroll 8
        for (int row = 0; row < kRows; ++row) {
          const int8_t* from = a + row * kStep + q * 4;
          low[part][row] = dot_codes<kBits>(low[part][row], first, broadcast_quad(from));
          high[part][row] = dot_codes<kBits>(high[part][row], last, broadcast_quad(from + 16));
        }
      }
    }
  }
};

template <int kRows>
inline void add_scaled(F32 (&to)[kParts][kRows], const I32 (&sums)[kParts][kRows],
                       const PackedPanels& p, const uint8_t* panel, const QuantisedRows& rows,
                       int64_t block) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    const F32 scales = load_scales(p, panel, block, part);
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) {
      const F32 scale = set1(rows.scales[block * kRows + row]) * scales;
      to[part][row] = fma(to_f32(sums[part][row]), scale, to[part][row]);
    }
  }
}

template <int kBits, int kRows>
inline void multiply_panel(const PackedPanels& p, const uint8_t* panel, const QuantisedRows& rows,
                           F32 (&sums)[kParts][kRows]) {
  const int64_t tiles = p.block / kTile;
  const int8_t* a = rows.codes;
  int64_t k = 0;
  for (int64_t block = 0; block < p.blocks; ++block) {
    BlockSums<kBits, kRows> exact;
    exact.start(exact.low, p, panel, rows, block);
    exact.start(exact.high, p, panel, rows, -1);
    for (int64_t t = 0; t < tiles; ++t, k += kTile) {
      const uint8_t* tile = panel + k / kTile * kTileBytes<kBits>;
      for (int line = 0; line < kTileBytes<kBits>; line += 64) {
        __builtin_prefetch(tile + kAhead + line);
      }
      exact.add_tile(tile, a + k / kStep * kStep * kRows + k % kStep);
    }
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int row = 0; row < kRows; ++row) {
        exact.low[part][row] = exact.low[part][row] + exact.high[part][row];
      }
    }
    add_scaled(sums, exact.low, p, panel, rows, block);
  }
}

// Blocks of 16: a tile holds two.
template <int kBits, int kRows>
inline void multiply_half_tiles(const PackedPanels& p, const uint8_t* panel,
                                const QuantisedRows& rows, F32 (&sums)[kParts][kRows]) {
  for (int64_t block = 0; block < p.blocks; block += 2) {
    const bool both = block + 1 < p.blocks;
    const uint8_t* tile = panel + block / 2 * kTileBytes<kBits>;
    const int64_t k = block * 16;
    BlockSums<kBits, kRows> exact;
    exact.start(exact.low, p, panel, rows, block);
    exact.start(exact.high, p, panel, rows, both ? block + 1 : -1);
    __builtin_prefetch(tile + kAhead);
    exact.add_tile(tile, rows.codes + k / kStep * kStep * kRows + k % kStep);
    add_scaled(sums, exact.low, p, panel, rows, block);
    if (both) add_scaled(sums, exact.high, p, panel, rows, block + 1);
  }
}

template <int kRows>
inline void clear(F32 (&sums)[kParts][kRows]) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
    for (int row = 0; row < kRows; ++row) sums[part][row] = zero_f32();
  }
}

template <int kBits, int kRows>
void multiply_rows(const PackedPanels& p, const QuantisedRows& rows, const ColumnRange& to) {
  for (int64_t i = 0; i < to.panels; ++i) {
    const uint8_t* panel = p.data + i * p.panel_bytes;
    F32 sums[kParts][kRows];
    clear(sums);
    if (p.block < kTile) {
      multiply_half_tiles<kBits, kRows>(p, panel, rows, sums);
    } else {
      multiply_panel<kBits, kRows>(p, panel, rows, sums);
    }
    store_panel<kRows>(sums, to, i);
  }
}

}  // namespace
}  // namespace lathe::cpu
