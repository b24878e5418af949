// SPDX-License-Identifier: MIT
// Unpacks codes of packed weights in registers. Units include a simd header first.
#pragma once

#include "targets/cpu/kernels/simd/simd.h"
#include "targets/cpu/kernels/weight_only/weight_only_table.h"

namespace lathe::cpu {
namespace {

constexpr int kParts = kPanel / kLanes;  // vectors per 16 columns

template <int kBits>
constexpr int kTileBytes = static_cast<int>(kTile * kPanel) * kBits / 8;

// Logical shift of dwords.
inline I32 shift_bits(I32 x, int count) {
#if defined(__AVX512F__)
  return {_mm512_srli_epi32(x.v, static_cast<unsigned>(count))};
#else
  return {_mm256_srli_epi32(x.v, count)};
#endif
}
inline I32 shift_bits_left(I32 x, int count) {
#if defined(__AVX512F__)
  return {_mm512_slli_epi32(x.v, static_cast<unsigned>(count))};
#else
  return {_mm256_slli_epi32(x.v, count)};
#endif
}

inline I32 load_codes(const uint8_t* from) { return load(reinterpret_cast<const int32_t*>(from)); }

// Elements 4q … 4q + 3 of a tile for the columns of `part`, one byte each. q is a constant after
// unrolling.
template <int kBits>
inline I32 quad(const uint8_t* tile, int q, int part) {
  const uint8_t* at = tile + part * kLanes * 4;
  if constexpr (kBits == 8) {
    return load_codes(at + q * 64);
  } else if constexpr (kBits == 4) {
    return shift_bits(load_codes(at + q % 4 * 64), q / 4 * 4) & set1(0x0F0F0F0F);
  } else if constexpr (kBits > 4) {
    constexpr int kPlanes = kBits - 4;  // vectors of high bits
    const I32 low = shift_bits(load_codes(at + q % 4 * 64), q / 4 * 4) & set1(0x0F0F0F0F);
    const I32 all = load_codes(at + 256 + q % kPlanes * 64);
    const int from = q / kPlanes * kPlanes;  // their place, of which they go to bit 4
    const I32 high = from < 4 ? shift_bits_left(all, 4 - from) : shift_bits(all, from - 4);
    return low | (high & set1(kBits == 5 ? 0x10101010 : 0x30303030));
  } else {
    const I32 low = shift_bits(load_codes(at + q % 2 * 64), q / 2 * 2) & set1(0x03030303);
    if constexpr (kBits == 2) return low;
    const I32 all = load_codes(at + 128);
    const I32 bit = q < 2 ? shift_bits_left(all, 2 - q) : shift_bits(all, q - 2);
    return low | (bit & set1(0x04040404));
  }
}

// Lane i of the result: op over the lanes of x[i].
template <class Op>
inline I32 across_lanes(const I32 (&x)[kLanes], Op op) {
#if defined(__AVX512F__)
  I32 y[8], z[4], u[2];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const __m512i a = x[i].v, b = x[i + 8].v;
    y[i] = op(I32{_mm512_shuffle_i32x4(a, b, 0x44)}, I32{_mm512_shuffle_i32x4(a, b, 0xEE)});
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m512i a = y[i].v, b = y[i + 4].v;
    z[i] = op(I32{_mm512_shuffle_i32x4(a, b, 0x88)}, I32{_mm512_shuffle_i32x4(a, b, 0xDD)});
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m512i a = z[i].v, b = z[i + 2].v;
    u[i] = op(I32{_mm512_unpacklo_epi64(a, b)}, I32{_mm512_unpackhi_epi64(a, b)});
  }
  const __m512 a = _mm512_castsi512_ps(u[0].v), b = _mm512_castsi512_ps(u[1].v);
  const I32 all = op(I32{_mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88))},
                     I32{_mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xDD))});
  const __m512i order = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  return {_mm512_permutexvar_epi32(order, all.v)};
#else
  I32 y[4], z[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m256i a = x[i].v, b = x[i + 4].v;
    y[i] =
        op(I32{_mm256_permute2x128_si256(a, b, 0x20)}, I32{_mm256_permute2x128_si256(a, b, 0x31)});
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const __m256i a = y[i].v, b = y[i + 2].v;
    z[i] = op(I32{_mm256_unpacklo_epi64(a, b)}, I32{_mm256_unpackhi_epi64(a, b)});
  }
  const __m256 a = _mm256_castsi256_ps(z[0].v), b = _mm256_castsi256_ps(z[1].v);
  const I32 all = op(I32{_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88))},
                     I32{_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD))});
  return {_mm256_permutevar8x32_epi32(all.v, _mm256_setr_epi32(0, 2, 1, 3, 4, 6, 5, 7))};
#endif
}

// vpmaddwd: multiplies int16 and adds pairs.
inline I32 multiply_int16(I32 a, I32 b) {
#if defined(__AVX512F__)
  return {_mm512_madd_epi16(a.v, b.v)};
#else
  return {_mm256_madd_epi16(a.v, b.v)};
#endif
}

// acc + the dot product of four bytes; codes below 8 bits do not overflow int16.
template <int kBits>
inline I32 dot_codes(I32 acc, I32 codes, I32 a) {
#if !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
  if constexpr (kBits < 8) {
#if defined(__AVX512F__)
    const I32 pairs{_mm512_maddubs_epi16(codes.v, a.v)};
#else
    const I32 pairs{_mm256_maddubs_epi16(codes.v, a.v)};
#endif
    return acc + multiply_int16(pairs, set1(0x00010001));
  }
#endif
  return dot_u8s8(acc, codes, a);
}

// Location of a block in a panel.
struct Place {
  const uint8_t* cell;
  int64_t slot;  // block index in the cell
};
inline Place place_of(const PackedPanels& p, const uint8_t* panel, int64_t block) {
  if (p.block < kTile) return {panel + block / 2 * p.cell_bytes, block % 2};
  return {panel + block * p.cell_bytes, 0};
}

// The tile of element k, a multiple of 4, and the index of k's quad in it.
struct TilePlace {
  const uint8_t* tile;
  int quad;
};
template <int kBits>
inline TilePlace tile_of(const PackedPanels& p, const uint8_t* panel, int64_t k) {
  const int64_t extent = p.block < kTile ? kTile : p.block;
  return {panel + k / extent * p.cell_bytes + k % extent / kTile * kTileBytes<kBits>,
          static_cast<int>(k % kTile / 4)};
}

inline F32 load_scales(const PackedPanels& p, Place place, int part) {
  const uint8_t* from = place.cell + p.scales_at;
  const int64_t at = place.slot * kPanel + part * kLanes;
  if (p.scales == ScaleKind::f32) return load_f32(reinterpret_cast<const float*>(from) + at);
  if (p.scales == ScaleKind::f16) return load_f32(reinterpret_cast<const F16*>(from) + at);
  return load_f32(reinterpret_cast<const Bf16*>(from) + at);
}

template <int kBits>
inline I32 load_zeros(const PackedPanels& p, Place place, int part) {
  if (p.zeros != ZeroKind::codes) return set1(1 << (kBits - 1));
  return load_i32(place.cell + p.zeros_at + place.slot * kPanel + part * kLanes);
}

inline F32 load_float_zeros(const PackedPanels& p, Place place, int part) {
  const auto* from = reinterpret_cast<const float*>(place.cell + p.zeros_at);
  return load(from + place.slot * kPanel + part * kLanes);
}

// A block's dot product of codes, less the zero points times the sum of the row's codes; `start`
// is minus that sum.
inline F32 add_zero_points(F32 dot, F32 zeros, int32_t start) {
  return fma(to_f32(set1(start)), zeros, dot);
}

template <int kBits>
inline F32 load_f32_zeros(const PackedPanels& p, Place place, int part) {
  if (p.zeros != ZeroKind::floats) return to_f32(load_zeros<kBits>(p, place, part));
  return load_float_zeros(p, place, part);
}

}  // namespace
}  // namespace lathe::cpu
