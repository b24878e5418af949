// SPDX-License-Identifier: MIT
// Columns of tiles of packed weights.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

#include "targets/cpu/kernels/weight_only/weight_only_table.h"

namespace lathe::cpu {

using Tile = std::array<uint8_t, kTile>;  // codes of a column

inline uint32_t load_u32(const uint8_t* from) {
  uint32_t x;
  std::memcpy(&x, from, 4);
  return x;
}
inline void store_u32(uint8_t* to, uint32_t x) { std::memcpy(to, &x, 4); }

// Writes column `column` of a packed tile.
inline void write_column(const Tile& codes, int bits, int64_t column, uint8_t* tile) {
  const auto quad = [&](int q) { return load_u32(codes.data() + 4 * q); };
  uint8_t* to = tile + column * 4;
  if (bits == 8) {
    for (int q = 0; q < 8; ++q) store_u32(to + q * 64, quad(q));
  } else if (bits == 4) {
    for (int q = 0; q < 4; ++q) store_u32(to + q * 64, quad(q) | quad(q + 4) << 4);
  } else if (bits > 4) {
    for (int q = 0; q < 4; ++q) {
      store_u32(to + q * 64, (quad(q) & 0x0F0F0F0F) | (quad(q + 4) & 0x0F0F0F0F) << 4);
    }
    const int planes = bits - 4;
    const uint32_t mask = bits == 5 ? 0x01010101 : 0x03030303;
    for (int i = 0; i < planes; ++i) {
      uint32_t high = 0;
      for (int q = i; q < 8; q += planes) high |= (quad(q) >> 4 & mask) << (q / planes * planes);
      store_u32(to + 256 + i * 64, high);
    }
  } else {
    for (int i = 0; i < 2; ++i) {
      uint32_t low = 0;
      for (int p = 0; p < 4; ++p) low |= (quad(2 * p + i) & 0x03030303) << 2 * p;
      store_u32(to + i * 64, low);
    }
    if (bits == 2) return;
    uint32_t high = 0;
    for (int q = 0; q < 8; ++q) high |= (quad(q) >> 2 & 0x01010101) << q;
    store_u32(to + 128, high);
  }
}

inline void read_column(const uint8_t* tile, int bits, int64_t column, Tile& codes) {
  const uint8_t* from = tile + column * 4;
  for (int q = 0; q < 8; ++q) {
    uint32_t x = 0;
    if (bits == 8) {
      x = load_u32(from + q * 64);
    } else if (bits == 4) {
      x = load_u32(from + q % 4 * 64) >> q / 4 * 4 & 0x0F0F0F0F;
    } else {
      x = load_u32(from + q % 2 * 64) >> q / 2 * 2 & 0x03030303;
      if (bits == 3) x |= (load_u32(from + 128) >> q & 0x01010101) << 2;
    }
    store_u32(codes.data() + 4 * q, x);
  }
}

}  // namespace lathe::cpu
