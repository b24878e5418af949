// SPDX-License-Identifier: MIT
// Kernels of compact weights. Units include a simd header first.
#pragma once

#include <type_traits>
#include <utility>

#include "targets/cpu/kernels/weight_only/weight_only_compact.h"
#include "targets/cpu/kernels/weight_only/weight_only_gemv.h"

namespace lathe::cpu {
namespace {

// 16 levels plus 128, in each 16 bytes.
inline I32 load_levels(const int8_t* levels) {
  const __m128i x =
      _mm_add_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(levels)), _mm_set1_epi8(-128));
#if defined(__AVX512F__)
  return {_mm512_broadcast_i32x4(x)};
#else
  return {_mm256_broadcastsi128_si256(x)};
#endif
}
inline I32 look_up(I32 levels, I32 codes) {
#if defined(__AVX512F__)
  return {_mm512_shuffle_epi8(levels.v, codes.v)};
#else
  return {_mm256_shuffle_epi8(levels.v, codes.v)};
#endif
}

// Elements 4q … 4q + 3 of a tile, one byte each.
template <CompactForm kForm>
inline I32 compact_quad(const uint8_t* tile, int q, int part, I32 levels) {
  const I32 codes = quad<kForm.bits>(tile, q, part);
  if constexpr (kForm.levels) return look_up(levels, codes);
  return codes;
}

struct BlockFactors {
  F32 scale, minimum;
};
template <CompactForm kForm>
inline BlockFactors load_factors(const uint8_t* cell, int64_t block, int part) {
  constexpr CompactCell kCell(kForm);
  const int64_t at = block * kPanel + part * kLanes;
  const auto load_one = [&](int64_t parts_at, int64_t factors_at) {
    if constexpr (kForm.byte_scales) {
      return load_f32(reinterpret_cast<const int8_t*>(cell + parts_at) + at) *
             load_f32(reinterpret_cast<const F16*>(cell + factors_at) + part * kLanes);
    } else {
      return load_f32(reinterpret_cast<const F16*>(cell + parts_at) + at);
    }
  };
  const F32 scale = load_one(kCell.scales_at, kCell.factors_at);
  if constexpr (!kForm.minimums) return {scale, zero_f32()};
  return {scale, load_one(kCell.minimums_at, kCell.minimum_factors_at)};
}

// Rows in blocks of `height`.
struct CompactRows {
  QuantisedRows rows;
  int64_t height;
  const int8_t* codes_at(int64_t k) const {
    return rows.codes + k / kStep * kStep * height + k % kStep;
  }
};

template <CompactForm kForm, int kRows>
inline void add_compact(F32 (&to)[kParts][kRows], const I32 (&acc)[kParts][kRows],
                        const uint8_t* cell, int64_t slot, const CompactRows& a, int64_t block) {
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
    const BlockFactors f = load_factors<kForm>(cell, slot, part);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const int64_t at = block * a.height + r;
      to[part][r] = fma(to_f32(acc[part][r]), set1(a.rows.scales[at]) * f.scale, to[part][r]);
      if constexpr (kForm.minimums) {
        to[part][r] = fma(from_bits(set1(a.rows.starts[at])), f.minimum, to[part][r]);
      }
    }
  }
}

// Adds a tile of a cell, from `block` of the rows on.
template <CompactForm kForm, int kRows>
inline void add_compact_tile(F32 (&to)[kParts][kRows], const uint8_t* cell, int64_t tile,
                             const CompactRows& a, int64_t block, I32 levels) {
  constexpr CompactCell kCell(kForm);
  constexpr int kBits = kForm.levels ? 8 : kForm.bits;
  const uint8_t* const codes = cell + kCell.codes_at + tile * kCell.tile_bytes;
  const int8_t* const from = a.codes_at(block * kForm.block);
  I32 low[kParts][kRows], high[kParts][kRows];
#pragma GCC unroll 2
  for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const int32_t* const starts = a.rows.starts + block * a.height + r;
      low[part][r] = kForm.minimums ? zero_i32() : set1(*starts);
      high[part][r] = kForm.minimums || kForm.block == kTile ? zero_i32() : set1(starts[a.height]);
    }
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) {
      const I32 first = compact_quad<kForm>(codes, q, part, levels);
      const I32 last = compact_quad<kForm>(codes, q + 4, part, levels);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const int8_t* const at = from + r * kStep + q * 4;
        low[part][r] = dot_codes<kBits>(low[part][r], first, broadcast_quad(at));
        high[part][r] = dot_codes<kBits>(high[part][r], last, broadcast_quad(at + 16));
      }
    }
  }
  if constexpr (kForm.block < kTile) {
    add_compact<kForm>(to, low, cell, tile * 2, a, block);
    add_compact<kForm>(to, high, cell, tile * 2 + 1, a, block + 1);
  } else {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) low[part][r] = low[part][r] + high[part][r];
    }
    add_compact<kForm>(to, low, cell, tile, a, block);
  }
}

template <CompactForm kForm, int kRows>
void compact_gemv(const CompactPanels& p, const QuantisedRows& rows, int64_t height,
                  const ColumnRange& to) {
  constexpr CompactCell kCell(kForm);
  constexpr int64_t kTiles = kCell.elements / kTile, kTileBlocks = kTile / kForm.block;
  PackedPanels sizes;
  sizes.panel_bytes = p.panel_bytes;
  sizes.cell_bytes = kCell.bytes / kTiles;
  sizes.blocks = p.cells * kCell.blocks;
  sizes.block = kForm.block;
  std::conditional_t<kRows == 1, L1ResidentRow, NotResident> resident(sizes, rows);
  const I32 levels = kForm.levels ? load_levels(p.levels) : zero_i32();
  const CompactRows a{rows, height};
  for (int64_t i = 0; i < to.panels; ++i) {
    const uint8_t* cell = p.data + i * p.panel_bytes;
    F32 acc[kParts][kRows];
    clear(acc);
    int64_t block = 0;
    for (int64_t c = 0; c < p.cells; ++c, cell += kCell.bytes) {
      for (int64_t t = 0; t < kTiles; ++t, block += kTileBlocks) {
        resident.reload();
        fetch_ahead<kCell.bytes / kTiles, kRows>(cell + t * (kCell.bytes / kTiles));
        add_compact_tile<kForm>(acc, cell, t, a, block, levels);
      }
    }
    store_panel<kRows>(acc, to, i);
  }
}

// Codes of a tile in the plain form.
template <CompactForm kForm>
inline void expand_tile(const uint8_t* tile, I32 levels, uint8_t* to) {
  constexpr int kBits = plain_bits(kForm);
  constexpr int kShift = kForm.minimums || kForm.levels ? 0 : (1 << (kBits - 1)) - zero_of(kForm);
  if constexpr (kBits == kForm.bits && !kForm.levels) {
    __builtin_memcpy(to, tile, CompactCell(kForm).tile_bytes);
    return;
  }
#pragma GCC unroll 8
  for (int q = 0; q < (kBits == 8 ? 8 : 4); ++q) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      auto* const at = reinterpret_cast<int32_t*>(to + q * 64) + part * kLanes;
      const auto shifted = [&](int i) {
        return compact_quad<kForm>(tile, i, part, levels) + set1(kShift * 0x01010101);
      };
      store(at, kBits == 8 ? shifted(q) : shifted(q) | shift_bits_left(shifted(q + 4), 4));
    }
  }
}

template <CompactForm kForm>
void expand_panel(const CompactPanels& p, const PlainCells& to) {
  constexpr CompactCell kCell(kForm);
  constexpr int64_t kTileBlocks = kTile / kForm.block;
  using Scale = std::conditional_t<kForm.byte_scales, float, F16>;
  const I32 levels = kForm.levels ? load_levels(p.levels) : zero_i32();
  uint8_t* out = to.data;
  for (int64_t c = 0; c < p.cells; ++c) {
    const uint8_t* const cell = p.data + c * kCell.bytes;
    for (int64_t t = 0; t < kCell.elements / kTile; ++t, out += to.cell_bytes) {
      expand_tile<kForm>(cell + kCell.codes_at + t * kCell.tile_bytes, levels, out);
      for (int64_t b = 0; b < kTileBlocks; ++b) {
#pragma GCC unroll 2
        for (int part = 0; part < kParts; ++part) {
          const BlockFactors f = load_factors<kForm>(cell, t * kTileBlocks + b, part);
          const int64_t at = b * kPanel + part * kLanes;
          store_f32(reinterpret_cast<Scale*>(out + to.scales_at) + at, f.scale);
          if (kForm.minimums) store(reinterpret_cast<float*>(out + to.zeros_at) + at, f.minimum);
        }
      }
    }
  }
}

constexpr int kMaxCompactRows = kLanes == 16 ? 3 : 2;  // whose accumulators fit registers

template <CompactForm kForm>
constexpr CompactTable::Gemvs compact_gemvs() {
  CompactTable::Gemvs out{&compact_gemv<kForm, 1>, &compact_gemv<kForm, 2>};
  if constexpr (kMaxCompactRows > 2) out[2] = &compact_gemv<kForm, 3>;
  return out;
}
template <size_t... kIndices>
constexpr CompactTable make_compact_table(std::index_sequence<kIndices...>) {
  return {kMaxCompactRows,
          {compact_gemvs<kCompactForms[kIndices]>()...},
          {&expand_panel<kCompactForms[kIndices]>...}};
}
constexpr CompactTable make_compact_table() {
  return make_compact_table(std::make_index_sequence<kCompactForms.size()>());
}

}  // namespace
}  // namespace lathe::cpu
