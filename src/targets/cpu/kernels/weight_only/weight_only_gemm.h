// SPDX-License-Identifier: MIT
// Blocks of 16 quantised rows times chunks of panels unpacked to int8, for vectors of 8 elements.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_gemv.h"

namespace lathe::cpu {
namespace {

// Unpacks codes [k / 4][16][4] as unsigned, scales, and zero points in the form that `starts`
// multiplies.
template <int kBits>
bool unpack_codes(const PackedPanels& p, int64_t first, int64_t blocks, void* codes, float* scales,
                  int32_t* zeros) {
  for (int64_t i = 0; i < blocks; ++i) {
    const Place place = place_of(p, p.data, first + i);
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      store(scales + i * kPanel + part * kLanes, load_scales(p, place, part));
      int32_t* const to = zeros + i * kPanel + part * kLanes;
      if (p.zeros == ZeroKind::floats) {
        store(reinterpret_cast<float*>(to), load_float_zeros(p, place, part));
      } else {
        store(to, load_zeros<kBits>(p, place, part));
      }
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
  return p.zeros != ZeroKind::middle;
}

// Register block: two panels times kTileRows rows.
constexpr int kTileRows = 2;

template <int kRows>
using ExactTile = I32[2][kParts][kRows];
template <int kRows>
using FloatTile = F32[2][kParts][kRows];

// kMinimums: minimums in the place of zero points that are floats; starts are totals of elements.
template <int kRows, bool kMinimums>
inline void start_tile(ExactTile<kRows>& exact, const UnpackedChunk* panels,
                       const QuantisedRows& rows, int64_t b) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const bool floats = kMinimums || panels[0].float_zeros;
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        exact[p][part][r] = floats ? zero_i32() : set1(rows.starts[b * kPanel + r]);
      }
      if (floats) continue;
      if (panels[0].zeros == nullptr) continue;
      const I32 zeros = load(panels[p].zeros + b * kPanel + part * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        exact[p][part][r] = multiply_int16(zeros, exact[p][part][r]);
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
inline void load_tile(FloatTile<kRows>& tile, const float* acc) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        tile[p][part][r] = load(acc + p * kPanel * kPanel + r * kPanel + part * kLanes);
      }
    }
  }
}
template <int kRows>
inline void store_tile(const FloatTile<kRows>& tile, float* acc) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        store(acc + p * kPanel * kPanel + r * kPanel + part * kLanes, tile[p][part][r]);
      }
    }
  }
}

template <int kRows, bool kMinimums>
inline void add_scaled_tile(FloatTile<kRows>& tile, const ExactTile<kRows>& exact,
                            const UnpackedChunk* panels, const QuantisedRows& rows, int64_t b) {
#pragma GCC unroll 2
  for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const F32 scales = load(panels[p].scales + b * kPanel + part * kLanes);
      const int32_t* const at = panels[p].zeros + b * kPanel + part * kLanes;
      const bool floats = panels[0].float_zeros;
      const F32 zeros = floats ? load(reinterpret_cast<const float*>(at)) : zero_f32();
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const F32 scale = set1(rows.scales[b * kPanel + r]) * scales;
        F32 sum = to_f32(exact[p][part][r]);
        if constexpr (kMinimums) {
          const F32 total = from_bits(set1(rows.starts[b * kPanel + r]));
          tile[p][part][r] = fma(total, zeros, fma(sum, scale, tile[p][part][r]));
          continue;
        }
        if (floats) sum = add_zero_points(sum, zeros, rows.starts[b * kPanel + r]);
        tile[p][part][r] = fma(sum, scale, tile[p][part][r]);
      }
    }
  }
}

// `rows` and `acc` start at the first row.
template <int kRows, bool kMinimums>
inline void multiply_tile(const UnpackedChunk* panels, const QuantisedRows& rows, float* acc) {
  const int64_t block = panels[0].block;
  const int64_t group = block < kStep ? block : kStep;  // contiguous elements of a row
  FloatTile<kRows> tile;
  for (int64_t b = 0; b < panels[0].blocks; ++b) {
    ExactTile<kRows> exact;
    start_tile<kRows, kMinimums>(exact, panels, rows, b);
    for (int64_t k = b * block; k < (b + 1) * block; k += group) {
      const int64_t step = k / kStep * kStep * kPanel;
      if (k % kStep == 0) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) __builtin_prefetch(rows.prefetch + step + r * kStep, 0, 2);
      }
      const int8_t* a = rows.codes + step + k % kStep;
      const uint8_t* const w0 = static_cast<const uint8_t*>(panels[0].codes) + k * kPanel;
      const uint8_t* const w1 = static_cast<const uint8_t*>(panels[1].codes) + k * kPanel;
      for (int64_t i = 0; i < group; i += 16) {
#pragma GCC unroll 4
        for (int64_t q = i; q < i + 16; q += 4) {
          add_quad<kRows>(exact, w0 + q * kPanel, w1 + q * kPanel, a + q);
        }
      }
    }
    load_tile<kRows>(tile, acc);
    add_scaled_tile<kRows, kMinimums>(tile, exact, panels, rows, b);
    store_tile<kRows>(tile, acc);
  }
}

// Two panels. Padding rows are zeros.
template <bool kMinimums>
void multiply_gemm(const UnpackedChunk* panels, int64_t, const QuantisedRows& rows,
                   int64_t valid_rows, float* acc) {
  for (int64_t row = 0; row < valid_rows; row += kTileRows) {
    QuantisedRows from = rows;
    from.codes += row * kStep;
    from.prefetch += row * kStep;
    from.scales += row;
    from.starts += row;
    multiply_tile<kTileRows, kMinimums>(panels, from, acc + row * kPanel);
  }
}

}  // namespace
}  // namespace lathe::cpu
