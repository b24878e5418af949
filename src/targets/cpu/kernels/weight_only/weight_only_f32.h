// SPDX-License-Identifier: MIT
// f32 GEMV with packed weights. Per block, the lower and the upper halves of tiles have separate
// accumulators, in order of k. Their sum times the scale is added to the result.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_gemv.h"

namespace lathe::cpu {
namespace {

// Byte j of each dword as f32.
inline F32 byte_to_f32(I32 quads, int j) {
  const I32 shifted = shift_bits(quads, j * 8);
  return to_f32(j == 3 ? shifted : shifted & set1(0xFF));
}

// Adds half a tile: quads from `first` (0 or 4) on; `a` points to the tile's first element.
template <int kBits, int kRows>
inline void add_half(F32 (&acc)[kRows], const uint8_t* tile, int first, int part, F32 zeros,
                     const float* a, int64_t a_stride) {
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const I32 codes = quad<kBits>(tile, first + q, part);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const F32 w = byte_to_f32(codes, j) - zeros;
#pragma GCC unroll 4
      for (int row = 0; row < kRows; ++row) {
        acc[row] = fma(set1(a[row * a_stride + (first + q) * 4 + j]), w, acc[row]);
      }
    }
  }
}

template <int kBits, int kRows>
inline void add_f32_block(F32 (&to)[kRows], const PackedPanels& p, const uint8_t* panel,
                          int64_t block, int part, const float* a, int64_t a_stride) {
  const Place place = place_of(p, panel, block);
  const F32 zeros = load_f32_zeros<kBits>(p, place, part);
  F32 low[kRows], high[kRows];
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) low[row] = high[row] = zero_f32();
  if (p.block < kTile) {
    if (place.slot == 0) {
      add_half<kBits>(low, place.cell, 0, part, zeros, a + block / 2 * kTile, a_stride);
    } else {
      add_half<kBits>(low, place.cell, 4, part, zeros, a + block / 2 * kTile, a_stride);
    }
  } else {
    const uint8_t* tile = place.cell;
    for (int64_t k = block * p.block; k < (block + 1) * p.block; k += kTile) {
      add_half<kBits>(low, tile, 0, part, zeros, a + k, a_stride);
      add_half<kBits>(high, tile, 4, part, zeros, a + k, a_stride);
      tile += kTileBytes<kBits>;
    }
  }
  const F32 scales = load_scales(p, place, part);
#pragma GCC unroll 4
  for (int row = 0; row < kRows; ++row) to[row] = fma(low[row] + high[row], scales, to[row]);
}

template <int kBits, int kRows>
void f32_gemv(const PackedPanels& p, const float* a, int64_t a_stride, const ColumnRange& to) {
  for (int64_t i = 0; i < to.panels; ++i) {
    const uint8_t* panel = p.data + i * p.panel_bytes;
    F32 acc[kParts][kRows];
    clear(acc);
    for (int64_t block = 0; block < p.blocks; ++block) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        add_f32_block<kBits>(acc[part], p, panel, block, part, a, a_stride);
      }
    }
    store_panel<kRows>(acc, to, i);
  }
}

// ---- f32 GEMM: 16 rows and more, chunks of panels unpacked to f32 [k][16] ----

template <int kBits>
void unpack_f32(const PackedPanels& p, int64_t first, int64_t blocks, float* codes, float* scales) {
  for (int64_t i = 0; i < blocks; ++i) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const Place place = place_of(p, p.data, first + i);
      const F32 zeros = load_f32_zeros<kBits>(p, place, part);
      store(scales + i * kPanel + part * kLanes, load_scales(p, place, part));
      const int64_t begin = (first + i) * p.block;
      for (int64_t k = begin; k < begin + p.block; k += 4) {
        const TilePlace at = tile_of<kBits>(p, p.data, k);
        const I32 bytes = quad<kBits>(at.tile, at.quad, part);
        float* to = codes + (k - first * p.block) * kPanel + part * kLanes;
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) store(to + j * kPanel, byte_to_f32(bytes, j) - zeros);
      }
    }
  }
}

constexpr int kF32Rows = kLanes == 16 ? 4 : 2;

// Adds one half (`begin`: 0 or 16) of a block's tiles, for rows of `a` and two panels.
inline void add_f32_halves(F32 (&acc)[2][kParts][kF32Rows], const float* const (&w)[2],
                           const float* a, int64_t a_stride, int64_t block, int64_t begin) {
  for (int64_t half = begin; half < block; half += kTile) {
    for (int64_t k = half; k < half + 16; ++k) {
#pragma GCC unroll 2
      for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
        for (int part = 0; part < kParts; ++part) {
          const F32 weights = load(w[p] + k * kPanel + part * kLanes);
#pragma GCC unroll 4
          for (int row = 0; row < kF32Rows; ++row) {
            acc[p][part][row] = fma(set1(a[row * a_stride + k]), weights, acc[p][part][row]);
          }
        }
      }
    }
  }
}

inline void f32_tile(const UnpackedChunk* panels, const float* a, int64_t a_stride, float* acc) {
  const int64_t block = panels[0].block;
  for (int64_t b = 0; b < panels[0].blocks; ++b) {
    const float* const w[2] = {static_cast<const float*>(panels[0].codes) + b * block * kPanel,
                               static_cast<const float*>(panels[1].codes) + b * block * kPanel};
    F32 low[2][kParts][kF32Rows], high[2][kParts][kF32Rows];
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
      clear(low[p]);
      clear(high[p]);
    }
    add_f32_halves(low, w, a + b * block, a_stride, block, 0);
    add_f32_halves(high, w, a + b * block, a_stride, block, 16);
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        const F32 scales = load(panels[p].scales + b * kPanel + part * kLanes);
#pragma GCC unroll 4
        for (int row = 0; row < kF32Rows; ++row) {
          float* to = acc + p * kPanel * kPanel + row * kPanel + part * kLanes;
          store(to, fma(low[p][part][row] + high[p][part][row], scales, load(to)));
        }
      }
    }
  }
}

// Computes padding rows, too; `count` is even.
inline void f32_gemm(const UnpackedChunk* panels, int64_t count, const float* a, int64_t a_stride,
                     int64_t valid_rows, float* acc) {
  for (int64_t row = 0; row < valid_rows; row += kF32Rows) {
    for (int64_t i = 0; i < count; i += 2) {
      f32_tile(panels + i, a + row * a_stride, a_stride, acc + i * kPanel * kPanel + row * kPanel);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
