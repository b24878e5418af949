// SPDX-License-Identifier: MIT
// Blocks of 16 quantised rows times unpacked chunks on AMX tiles. A block's exact sums leave the
// tile through memory, and are scaled while the next block is multiplied.
#pragma once

#include "targets/cpu/kernels/weight_only_codes.h"

namespace lathe::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0 and 1 hold sums, 2 and 3 rows of a, 4 and 5 weights.
inline void begin_tiles(int64_t block) {
  const auto depth = static_cast<uint16_t>(block < kStep ? block : kStep);
  TileConfig config;
  for (int i = 0; i < 6; ++i) {
    config.rows[i] = i < 4 ? 16 : static_cast<uint8_t>(depth / 4);
    config.row_bytes[i] = i == 2 || i == 3 ? depth : 64;
  }
  _tile_loadconfig(&config);
}
inline void end_tiles() { _tile_release(); }

// Codes less their zero points, [k / 4][16][4]; 8 bits less 128.
template <int kBits>
bool unpack_signed(const PackedPanels& p, int64_t first, int64_t blocks, void* codes, float* scales,
                   int32_t* zeros) {
  auto* to = static_cast<int32_t*>(codes);
  for (int64_t i = 0; i < blocks; ++i) {
    store(scales + i * kPanel, load_scales(p, p.data, first + i, 0));
    const I32 zero = load_zeros<kBits>(p, p.data, first + i, 0);
    if (kBits == 8) store(zeros + i * kPanel, zero - set1(128));
    const I32 bytes = kBits == 8 ? set1(static_cast<int32_t>(0x80808080)) : zero * set1(0x01010101);
    const int64_t begin = (first + i) * p.block;
    for (int64_t k = begin; k < begin + p.block; k += 16, to += 4 * kPanel) {
      const uint8_t* tile = p.data + k / kTile * kTileBytes<kBits>;
      if (k % kTile == 0) {
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          store(to + q * kPanel, I32{_mm512_sub_epi8(quad<kBits>(tile, q, 0).v, bytes.v)});
        }
      } else {
#pragma GCC unroll 4
        for (int q = 0; q < 4; ++q) {
          store(to + q * kPanel, I32{_mm512_sub_epi8(quad<kBits>(tile, q + 4, 0).v, bytes.v)});
        }
      }
    }
  }
  return kBits == 8 && p.zeros == ZeroKind::codes;
}

// Adds a block's sums, stored by a tile, to 16 rows in registers.
template <bool kZeros>
inline void add_stored(F32 (&to)[kPanel], const int32_t* exact, const UnpackedChunk& panel,
                       const QuantisedRows& rows, int64_t block) {
  const F32 scales = load(panel.scales + block * kPanel);
  const I32 zeros = kZeros ? load(panel.zeros + block * kPanel) : zero_i32();
#pragma GCC unroll 16
  for (int r = 0; r < kPanel; ++r) {
    I32 sum = load(exact + r * kPanel);
    if (kZeros) {
      sum = sum + I32{_mm512_madd_epi16(zeros.v, set1(rows.sums[block * kPanel + r]).v)};
    }
    to[r] = fma(to_f32(sum), set1(rows.scales[block * kPanel + r]) * scales, to[r]);
  }
}

template <int kSteps, int kSums>
inline void multiply_block(const int8_t* w, const int8_t* a, int32_t* exact) {
  _tile_zero(kSums);
#pragma GCC unroll 4
  for (int s = 0; s < kSteps; ++s) {
    _tile_loadd(kSums + 2, a + s * kStep * kPanel, kStep);
    _tile_loadd(kSums + 4, w + s * kStep * kPanel, 64);
    _tile_dpbssd(kSums, kSums + 2, kSums + 4);
  }
  _tile_stored(kSums, exact, 64);
}

template <int kSteps, bool kZeros>
inline void multiply_tile(const UnpackedChunk& panel, const QuantisedRows& rows, float* sums) {
  alignas(64) int32_t exact[2][kPanel * kPanel];
  const auto* w = static_cast<const int8_t*>(panel.codes);
  F32 to[kPanel];
#pragma GCC unroll 16
  for (int r = 0; r < kPanel; ++r) to[r] = load(sums + r * kPanel);
  for (int64_t b = 0; b < panel.blocks; ++b) {
    const int64_t k = b * panel.block;
    const int8_t* a = rows.codes + k / kStep * kStep * kPanel + k % kStep;
    if (b % 2 == 0) {
      multiply_block<kSteps, 0>(w + k * kPanel, a, exact[0]);
      if (b > 0) add_stored<kZeros>(to, exact[1], panel, rows, b - 1);
    } else {
      multiply_block<kSteps, 1>(w + k * kPanel, a, exact[1]);
      add_stored<kZeros>(to, exact[0], panel, rows, b - 1);
    }
  }
  add_stored<kZeros>(to, exact[(panel.blocks - 1) % 2], panel, rows, panel.blocks - 1);
#pragma GCC unroll 16
  for (int r = 0; r < kPanel; ++r) store(sums + r * kPanel, to[r]);
}

template <int kSteps>
inline void multiply_panels(const UnpackedChunk* panels, int64_t count, const QuantisedRows& rows,
                            float* sums) {
  for (int64_t i = 0; i < count; ++i, sums += kPanel * kPanel) {
    if (panels[i].zeros == nullptr) {
      multiply_tile<kSteps, false>(panels[i], rows, sums);
    } else {
      multiply_tile<kSteps, true>(panels[i], rows, sums);
    }
  }
}

inline void multiply_on_tiles(const UnpackedChunk* panels, int64_t count, const QuantisedRows& rows,
                              int64_t, float* sums) {
  if (panels[0].block == 256) return multiply_panels<4>(panels, count, rows, sums);
  if (panels[0].block == 128) return multiply_panels<2>(panels, count, rows, sums);
  multiply_panels<1>(panels, count, rows, sums);
}

}  // namespace
}  // namespace lathe::cpu
