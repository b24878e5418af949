// SPDX-License-Identifier: MIT
// AMX microkernel: blocks of 16 quantised rows times unpacked chunks. Exact accumulators leave the
// tile through memory; they are scaled while later blocks are multiplied.
#pragma once

#include "targets/cpu/kernels/weight_only/weight_only_unpack.h"

namespace lathe::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Tiles 0 and 1 are accumulators, 2 and 3 hold rows of a, 4 and 5 hold weights.
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

// Codes minus their zero points, [k / 4][16][4]; 8-bit codes minus 128.
template <int kBits>
bool unpack_signed(const PackedPanels& p, int64_t first, int64_t blocks, void* codes, float* scales,
                   int32_t* zeros) {
  auto* to = static_cast<int32_t*>(codes);
  for (int64_t i = 0; i < blocks; ++i) {
    const Place place = place_of(p, p.data, first + i);
    store(scales + i * kPanel, load_scales(p, place, 0));
    const I32 zero = load_zeros<kBits>(p, place, 0);
    if (kBits == 8) store(zeros + i * kPanel, zero - set1(128));
    const I32 bytes = kBits == 8 ? set1(static_cast<int32_t>(0x80808080)) : zero * set1(0x01010101);
    const int64_t begin = (first + i) * p.block;
    for (int64_t k = begin; k < begin + p.block; k += 16, to += 4 * kPanel) {
      const auto [tile, upper] = tile_of<kBits>(p, p.data, k);
      if (upper == 0) {
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

// Scales and zero-point compensation of a tile, per block of k.
struct Factors {
  const float* weights;       // [block][16], by column
  const float* rows;          // [block][16], by row
  const int32_t* zeros;       // [block][16], by column; used if kZeros
  const int32_t* row_starts;  // [block][16], by row
};

// Adds a block's accumulators, stored by a tile, to 16 rows in registers.
template <bool kZeros>
inline void add_stored(F32 (&to)[kPanel], const int32_t* exact, const Factors& f, int64_t block) {
  const F32 weights = load(f.weights + block * kPanel);
  const I32 zeros = kZeros ? load(f.zeros + block * kPanel) : zero_i32();
#pragma GCC unroll 16
  for (int r = 0; r < kPanel; ++r) {
    I32 sum = load(exact + r * kPanel);
    if (kZeros) sum = sum + multiply_int16(zeros, set1(f.row_starts[block * kPanel + r]));
    to[r] = fma(to_f32(sum), set1(f.rows[block * kPanel + r]) * weights, to[r]);
  }
}

template <int kSums, int kSteps>
inline void multiply_block(const int8_t* w, const int8_t* a) {
  _tile_zero(kSums);
#pragma GCC unroll 4
  for (int s = 0; s < kSteps; ++s) {
    if (s % 2 == 0) {
      _tile_loadd(2, a + s * kStep * kPanel, kStep);
      _tile_loadd(4, w + s * kStep * kPanel, 64);
      _tile_dpbssd(kSums, 2, 4);
    } else {
      _tile_loadd(3, a + s * kStep * kPanel, kStep);
      _tile_loadd(5, w + s * kStep * kPanel, 64);
      _tile_dpbssd(kSums, 3, 5);
    }
  }
}

// A tile is stored one block after its multiplication and added another block later. That hides the
// latency of TDPBSSD and of the store.
template <int kSteps, bool kZeros>
inline void multiply_tile(const UnpackedChunk& panel, const QuantisedRows& rows, float* acc) {
  alignas(64) int32_t even[kPanel * kPanel], odd[kPanel * kPanel];
  const auto* const w = static_cast<const int8_t*>(panel.codes);
  const int8_t* const a = rows.codes;
  const Factors factors{panel.scales, rows.scales, panel.zeros, rows.starts};
  const int64_t block = panel.block, blocks = panel.blocks;
  F32 to[kPanel];
#pragma GCC unroll 16
  for (int r = 0; r < kPanel; ++r) to[r] = load(acc + r * kPanel);
  for (int64_t b = 0; b < blocks; b += 2) {
    const int64_t k = b * block, next = k + block;
    multiply_block<0, kSteps>(w + k * kPanel, a + k / kStep * kStep * kPanel + k % kStep);
    if (b > 0) {
      _tile_stored(1, odd, 64);
      add_stored<kZeros>(to, even, factors, b - 2);
    }
    if (b + 1 < blocks) {
      multiply_block<1, kSteps>(w + next * kPanel,
                                a + next / kStep * kStep * kPanel + next % kStep);
    }
    _tile_stored(0, even, 64);
    if (b > 0) add_stored<kZeros>(to, odd, factors, b - 1);
  }
  if (blocks % 2 == 0) {
    _tile_stored(1, odd, 64);
    add_stored<kZeros>(to, even, factors, blocks - 2);
    add_stored<kZeros>(to, odd, factors, blocks - 1);
  } else {
    add_stored<kZeros>(to, even, factors, blocks - 1);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kPanel; ++r) store(acc + r * kPanel, to[r]);
}

template <int kSteps>
inline void multiply_panels(const UnpackedChunk* panels, int64_t count, const QuantisedRows& rows,
                            float* acc) {
  for (int64_t i = 0; i < count; ++i, acc += kPanel * kPanel) {
    if (panels[i].zeros == nullptr) {
      multiply_tile<kSteps, false>(panels[i], rows, acc);
    } else {
      multiply_tile<kSteps, true>(panels[i], rows, acc);
    }
  }
}

inline void multiply_amx(const UnpackedChunk* panels, int64_t count, const QuantisedRows& rows,
                         int64_t, float* acc) {
  if (panels[0].block == 256) return multiply_panels<4>(panels, count, rows, acc);
  if (panels[0].block == 128) return multiply_panels<2>(panels, count, rows, acc);
  multiply_panels<1>(panels, count, rows, acc);
}

}  // namespace
}  // namespace lathe::cpu
