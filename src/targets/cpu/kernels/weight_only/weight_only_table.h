// SPDX-License-Identifier: MIT
// What an instruction set's unit of the weight-only kernels exports.
#pragma once

#include <array>
#include <cstdint>

#include "targets/cpu/kernels/simd/elements.h"

namespace lathe::cpu {

inline constexpr int64_t kPanel = 16;       // columns of a panel, rows of a block of rows
inline constexpr int64_t kTile = 32;        // elements along k of a tile of codes
inline constexpr int64_t kStep = 64;        // elements along k that rows keep together
inline constexpr int64_t kMostChunk = 640;  // elements along k unpacked at once
inline constexpr int64_t kMostBlocks = kMostChunk / 16;

enum class ScaleKind : uint8_t { f32, f16, bf16 };
enum class ZeroKind : uint8_t { middle, codes, floats };

// Panels of packed weights from `data` on.
struct PackedPanels {
  const uint8_t* data = nullptr;
  int64_t panel_bytes = 0;
  int64_t cell_bytes = 0;
  int64_t scales_at = 0;
  int64_t zeros_at = 0;
  int64_t blocks = 0;
  int64_t block = 0;
  ScaleKind scales = ScaleKind::f32;
  ZeroKind zeros = ZeroKind::middle;
};

// Rows quantised in blocks of `height`: codes [k / 64][height][64], and per block of k `height`
// scales and as many starts, which the zero points add to a sum: minus the codes' sum times the
// zero point where all are equal, else minus the codes' sum, cut to 16 bits, to be multiplied.
struct QuantisedRows {
  int8_t* codes = nullptr;
  float* scales = nullptr;
  int32_t* starts = nullptr;
  const int8_t* ahead = nullptr;  // codes that are wanted next, as many
};

// `columns` of y from its first panel's first on; the last panel may have fewer than 16.
struct ColumnRange {
  int64_t panels = 0;
  int64_t columns = 0;
  const float* bias = nullptr;  // of the first column, or none
  float* y = nullptr;
  int64_t y_stride = 0;
};

// A chunk of a panel's k, unpacked: codes as bytes [k / 4][16][4] or floats [k][16].
struct UnpackedChunk {
  int64_t blocks = 0;
  int64_t block = 0;
  const void* codes = nullptr;
  const float* scales = nullptr;   // [blocks][16]
  const int32_t* zeros = nullptr;  // [blocks][16]: what the rows' starts multiply; or none
};

enum class Starts : uint8_t { none, of_zero, to_multiply };

// One row or four of `width` floats, some blocks of `block`.
struct RowsToQuantise {
  const float* from = nullptr;
  int64_t stride = 0;  // from row to row
  int64_t rows = 1;
  int64_t width = 0;
  int64_t block = 0;
  int64_t height = 0;  // of the blocks of rows that they go to
  Starts starts = Starts::none;
  int32_t zero = 0;
};

// By bits (2, 3, 4, 8) where an index is not named.
struct WeightOnlyTable {
  using Rows = void (*)(const PackedPanels&, const QuantisedRows&, const ColumnRange&);
  using FloatRows = void (*)(const PackedPanels&, const float* a, int64_t a_stride,
                             const ColumnRange&);
  // Whether zero points are left for the rows' starts to multiply.
  using Unpack = bool (*)(const PackedPanels&, int64_t block, int64_t blocks, void* codes,
                          float* scales, int32_t* zeros);
  using PackedTiles = void (*)(const PackedPanels&, const QuantisedRows&, int64_t valid_rows,
                               const ColumnRange&);
  using UnpackFloats = void (*)(const PackedPanels&, int64_t block, int64_t blocks, float* codes,
                                float* scales);

  void (*quantise)(const RowsToQuantise& rows, const QuantisedRows& to) = nullptr;
  void (*round_to_bf16)(float* data, int64_t count) = nullptr;  // in place; a multiple of 16
  int most_rows = 0;  // that `rows` has kernels for; they want blocks of as many rows
  std::array<std::array<Rows, 8>, 4> rows{};             // and by rows - 1
  std::array<std::array<FloatRows, 4>, 4> float_rows{};  // and by rows - 1
  // A block of 16 rows times two panels as they are packed, or one if there are 0 bytes to the
  // next; none: `unpack` and `tiles` instead.
  std::array<PackedTiles, 4> packed_tiles{};
  // Blocks from `block` on of one panel, at most kMostChunk elements, in the form that `tiles` and
  // `float_tiles` want.
  std::array<Unpack, 4> unpack{};
  std::array<UnpackFloats, 4> unpack_floats{};
  // Adds chunks' products with a block of 16 rows to sums[panel][16][16]; `count` is even, at most
  // `task_panels`.
  void (*tiles)(const UnpackedChunk* panels, int64_t count, const QuantisedRows& rows,
                int64_t valid_rows, float* sums) = nullptr;
  void (*float_tiles)(const UnpackedChunk* panels, int64_t count, const float* a, int64_t a_stride,
                      int64_t valid_rows, float* sums) = nullptr;
  // Rows of sums, plus the bias if there is one, to y.
  template <class T>
  using Store = void (*)(const float* sums, int64_t sums_stride, int64_t rows, int64_t columns,
                         const float* bias, T* y, int64_t stride);
  Store<float> store_f32 = nullptr;
  Store<F16> store_f16 = nullptr;
  Store<Bf16> store_bf16 = nullptr;
  // Panels that a task unpacks at once: chunks of two stay in a first cache beside rows and sums.
  int64_t task_panels = 2;
  int64_t chunk = kMostChunk;  // elements along k of them, at most
  bool signed_codes = false;   // `unpack` subtracts zero points where all are equal
  // Around the calls of `tiles` in a task, where there are registers to set up.
  void (*begin)(int64_t block) = nullptr;
  void (*end)() = nullptr;
};

extern const WeightOnlyTable kWeightOnlyAvx2;
extern const WeightOnlyTable kWeightOnlyAvx2Vnni;
extern const WeightOnlyTable kWeightOnlyAvx512;
extern const WeightOnlyTable kWeightOnlyAvx512Vnni;
extern const WeightOnlyTable kWeightOnlyAmx;

}  // namespace lathe::cpu
