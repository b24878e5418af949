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

constexpr int kTileRows = kLanes == 16 ? 8 : 2;

using ExactTile = I32[2][kParts][kTileRows];

inline void add_quad(ExactTile& exact, const uint8_t* w0, const uint8_t* w1, const int8_t* a) {
  I32 w[2][kParts];
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    w[0][part] = load_codes(w0 + part * kLanes * 4);
    w[1][part] = load_codes(w1 + part * kLanes * 4);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
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

inline void multiply_tile(const UnpackedChunk* panels, const QuantisedRows& rows, int64_t row,
                          float* sums) {
  const int64_t block = panels[0].block;
  const int64_t run = block < kStep ? block : kStep;  // elements of a row that lie together
  for (int64_t b = 0; b < panels[0].blocks; ++b) {
    ExactTile exact;
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
        for (int r = 0; r < kTileRows; ++r) {
          exact[p][part][r] = set1(rows.starts[b * kPanel + row + r]);
        }
        if (panels[0].zeros == nullptr) continue;
        const I32 zeros = load(panels[p].zeros + b * kPanel + part * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kTileRows; ++r) {
          exact[p][part][r] = multiply_words(zeros, exact[p][part][r]);
        }
      }
    }
    for (int64_t k = b * block; k < (b + 1) * block; k += run) {
      const int8_t* a = rows.codes + k / kStep * kStep * kPanel + row * kStep + k % kStep;
      const uint8_t* const w0 = static_cast<const uint8_t*>(panels[0].codes) + k * kPanel;
      const uint8_t* const w1 = static_cast<const uint8_t*>(panels[1].codes) + k * kPanel;
      for (int64_t i = 0; i < run; i += 16) {
#pragma GCC unroll 4
        for (int64_t q = i; q < i + 16; q += 4) {
          add_quad(exact, w0 + q * kPanel, w1 + q * kPanel, a + q);
        }
      }
    }
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        const F32 scales = load(panels[p].scales + b * kPanel + part * kLanes);
#pragma GCC unroll 8
        for (int r = 0; r < kTileRows; ++r) {
          float* to = sums + p * kPanel * kPanel + (row + r) * kPanel + part * kLanes;
          const F32 scale = set1(rows.scales[b * kPanel + row + r]) * scales;
          store(to, fma(to_f32(exact[p][part][r]), scale, load(to)));
        }
      }
    }
  }
}

// Rows behind the valid ones are zeros; `count` is even.
inline void multiply_tiles(const UnpackedChunk* panels, int64_t count, const QuantisedRows& rows,
                           int64_t valid_rows, float* sums) {
  for (int64_t row = 0; row < valid_rows; row += kTileRows) {
    for (int64_t i = 0; i < count; i += 2) {
      multiply_tile(panels + i, rows, row, sums + i * kPanel * kPanel);
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
