// SPDX-License-Identifier: MIT
// Blocks of 16 quantised rows times chunks of panels that were unpacked to bytes.
#pragma once

#include "targets/cpu/kernels/weight_only_rows.h"

namespace lathe::cpu {
namespace {

// Codes [k / 4][16][4]: as they are, unsigned; scales; zero points as the rows' sums want them.
template <int kBits>
bool unpack_codes(const PackedPanels& p, int64_t first, int64_t blocks, void* codes, float* scales,
                  int32_t* zeros) {
  for (int64_t i = 0; i < blocks; ++i) {
    const Place place = place_of(p, p.data, first + i);
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      store(scales + i * kPanel + part * kLanes, load_scales(p, place, part));
      store(zeros + i * kPanel + part * kLanes, load_zeros<kBits>(p, place, part));
    }
  }
  // In half tiles: a chunk may begin and end within a tile.
  auto* to = static_cast<uint8_t*>(codes);
  for (int64_t k = first * p.block; k < (first + blocks) * p.block; k += 16, to += 4 * 64) {
    const auto [tile, upper] = tile_of<kBits>(p, p.data, k);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        auto* at = reinterpret_cast<int32_t*>(to + q * 64 + part * kLanes * 4);
        store(at, upper == 0 ? quad<kBits>(tile, q, part) : quad<kBits>(tile, q + 4, part));
      }
    }
  }
  return p.zeros == ZeroKind::codes;
}

// Two panels times some rows at once. Where registers allow, the floats stay in them for a chunk:
// a store of a whole vector takes a slot of the multipliers on some processors.
constexpr int kTileRows = kLanes == 16 ? 6 : 2;
constexpr bool kKeepsSums = kLanes == 16;

template <int kRows>
using ExactTile = I32[2][kParts][kRows];
template <int kRows>
using FloatTile = F32[2][kParts][kRows];

template <int kRows>
inline void start_tile(ExactTile<kRows>& exact, const UnpackedChunk* panels,
                       const QuantisedRows& rows, int64_t b) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) exact[p][part][r] = set1(rows.starts[b * kPanel + r]);
      if (panels[0].zeros == nullptr) continue;
      const I32 zeros = load(panels[p].zeros + b * kPanel + part * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        exact[p][part][r] = multiply_words(zeros, exact[p][part][r]);
      }
    }
  }
}

template <int kRows>
inline void add_quad(ExactTile<kRows>& exact, const uint8_t* w0, const uint8_t* w1,
                     const int8_t* a) {
  I32 w[2][kParts];
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    w[0][part] = load_codes(w0 + part * kLanes * 4);
    w[1][part] = load_codes(w1 + part * kLanes * 4);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const I32 quads = broadcast_quad(a + r * kStep);
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        exact[p][part][r] = dot_u8s8(exact[p][part][r], w[p][part], quads);
      }
    }
  }
}

template <int kRows>
inline void load_tile(FloatTile<kRows>& tile, const float* sums) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        tile[p][part][r] = load(sums + p * kPanel * kPanel + r * kPanel + part * kLanes);
      }
    }
  }
}
// With the bias to y, rows and columns behind the last left out.
template <int kRows>
inline void store_results(const FloatTile<kRows>& tile, const ColumnRange& to, int64_t rows) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const int64_t column = p * kPanel + part * kLanes;
      const int64_t left = to.columns - column;
      if (left <= 0) return;
      const Mask mask = mask_first(left < kLanes ? left : kLanes);
      const F32 bias = to.bias == nullptr ? zero_f32() : load(to.bias + column, mask);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        if (r >= rows) break;
        F32 x = tile[p][part][r];
        if (to.bias != nullptr) x = x + bias;
        store(to.y + r * to.y_stride + column, x, mask);
      }
    }
  }
}

template <int kRows>
inline void store_tile(const FloatTile<kRows>& tile, float* sums) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        store(sums + p * kPanel * kPanel + r * kPanel + part * kLanes, tile[p][part][r]);
      }
    }
  }
}

template <int kRows>
inline void add_scaled_tile(FloatTile<kRows>& tile, const ExactTile<kRows>& exact,
                            const UnpackedChunk* panels, const QuantisedRows& rows, int64_t b) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const F32 scales = load(panels[p].scales + b * kPanel + part * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F32 scale = set1(rows.scales[b * kPanel + r]) * scales;
        tile[p][part][r] = fma(to_f32(exact[p][part][r]), scale, tile[p][part][r]);
      }
    }
  }
}

// Lines of y are far apart: storing them would wait for each.
template <int kRows>
inline void prefetch_results(const ColumnRange& to, int64_t rows) {
  for (int r = 0; r < kRows && r < rows; ++r) {
    __builtin_prefetch(to.y + r * to.y_stride, 1);
    if (to.columns > kPanel) __builtin_prefetch(to.y + r * to.y_stride + kPanel, 1);
  }
}

// `rows`, `sums` and `y` at the first row, of `valid` ones.
template <int kRows>
inline void multiply_tile(const UnpackedChunk* panels, const QuantisedRows& rows, float* sums,
                          const ColumnRange* y, int64_t valid) {
  if (y != nullptr) prefetch_results<kRows>(*y, valid);
  const int64_t block = panels[0].block;
  const int64_t run = block < kStep ? block : kStep;  // elements of a row that lie together
  FloatTile<kRows> tile;
  if (kKeepsSums) load_tile<kRows>(tile, sums);
  for (int64_t b = 0; b < panels[0].blocks; ++b) {
    ExactTile<kRows> exact;
    start_tile<kRows>(exact, panels, rows, b);
    for (int64_t k = b * block; k < (b + 1) * block; k += run) {
      const int64_t step = k / kStep * kStep * kPanel;
      if (k % kStep == 0) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) __builtin_prefetch(rows.ahead + step + r * kStep, 0, 2);
      }
      const int8_t* a = rows.codes + step + k % kStep;
      const uint8_t* const w0 = static_cast<const uint8_t*>(panels[0].codes) + k * kPanel;
      const uint8_t* const w1 = static_cast<const uint8_t*>(panels[1].codes) + k * kPanel;
      for (int64_t i = 0; i < run; i += 16) {
#pragma GCC unroll 4
        for (int64_t q = i; q < i + 16; q += 4) {
          add_quad<kRows>(exact, w0 + q * kPanel, w1 + q * kPanel, a + q);
        }
      }
    }
    if (!kKeepsSums) load_tile<kRows>(tile, sums);
    add_scaled_tile<kRows>(tile, exact, panels, rows, b);
    if (!kKeepsSums) store_tile<kRows>(tile, sums);
  }
  if (!kKeepsSums && y == nullptr) return;
  if (y == nullptr) {
    store_tile<kRows>(tile, sums);
  } else {
    if (!kKeepsSums) load_tile<kRows>(tile, sums);
    store_results<kRows>(tile, *y, valid);
  }
}

template <int kRows>
inline void multiply_row_tile(const UnpackedChunk* panels, QuantisedRows rows, int64_t row,
                              int64_t valid_rows, float* sums, const ColumnRange* y) {
  rows.codes += row * kStep;
  rows.ahead += row * kStep;
  rows.scales += row;
  rows.starts += row;
  if (y == nullptr) {
    multiply_tile<kRows>(panels, rows, sums + row * kPanel, nullptr, 0);
  } else {
    ColumnRange to = *y;
    to.y += row * to.y_stride;
    multiply_tile<kRows>(panels, rows, sums + row * kPanel, &to, valid_rows - row);
  }
}

// Two panels. Rows behind the valid ones are zeros.
inline void multiply_tiles(const UnpackedChunk* panels, int64_t, const QuantisedRows& rows,
                           int64_t valid_rows, float* sums, const ColumnRange* y) {
  if constexpr (kTileRows == 6) {
    multiply_row_tile<6>(panels, rows, 0, valid_rows, sums, y);
    if (valid_rows > 6) multiply_row_tile<5>(panels, rows, 6, valid_rows, sums, y);
    if (valid_rows > 11) multiply_row_tile<5>(panels, rows, 11, valid_rows, sums, y);
  } else {
    for (int64_t row = 0; row < valid_rows; row += kTileRows) {
      multiply_row_tile<kTileRows>(panels, rows, row, valid_rows, sums, y);
    }
  }
}

// Rows of 16 sums, and the bias, to y.
template <class T>
inline void store_rows(const float* sums, int64_t rows, int64_t columns, const float* bias, T* y,
                       int64_t stride) {
  for (int64_t part = 0; part * kLanes < columns; ++part) {
    const int64_t left = columns - part * kLanes;
    const Mask mask = mask_first(left < kLanes ? left : kLanes);
    const F32 offset = bias == nullptr ? zero_f32() : load(bias + part * kLanes, mask);
    for (int64_t r = 0; r < rows; ++r) {
      F32 x = load(sums + r * kPanel + part * kLanes);
      if (bias != nullptr) x = x + offset;
      store_f32(y + r * stride + part * kLanes, x, mask);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
