// SPDX-License-Identifier: MIT
// Kernel table of an instruction set's unit for weight-only GEMM.
#pragma once

#include <array>
#include <cstdint>

#include "targets/cpu/kernels/simd/elements.h"
#include "tensor/fit_block.h"

namespace lathe::cpu {

inline constexpr int64_t kPanel = 16;      // columns of a panel, rows of a block of rows
inline constexpr int64_t kTile = 32;       // elements along k of a tile of codes
inline constexpr int64_t kStep = 64;       // contiguous elements along k of a quantised row
inline constexpr int64_t kMaxChunk = 640;  // elements along k unpacked at once
inline constexpr int64_t kMaxBlocks = kMaxChunk / 16;

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

// Rows quantised in blocks of `height`: codes [k / 64][height][64]. Each block of k has `height`
// scales and `height` starts, the zero-point compensation. If all zero points are equal, a start is
// minus the sum of the codes times the zero point. Otherwise it is minus the sum, truncated to 16
// bits, and is multiplied by the zero point.
struct QuantisedRows {
  int8_t* codes = nullptr;
  float* scales = nullptr;
  int32_t* starts = nullptr;
  const int8_t* prefetch = nullptr;  // codes to prefetch, of the same size
};

// `columns` columns of y from its first panel on; the last panel may have fewer than 16.
struct ColumnRange {
  int64_t panels = 0;
  int64_t columns = 0;
  const float* bias = nullptr;  // at the first column, or null
  float* y = nullptr;
  int64_t y_stride = 0;
};

// An unpacked chunk of a panel along k: int8 codes [k / 4][16][4] or f32 [k][16].
struct UnpackedChunk {
  int64_t blocks = 0;
  int64_t block = 0;
  const void* codes = nullptr;
  const float* scales = nullptr;   // [blocks][16]
  const int32_t* zeros = nullptr;  // [blocks][16], multiplied by the rows' starts; or null
  bool float_zeros = false;        // `zeros` are the bits of floats
};

// of_one: that of the zero point 1, to be multiplied by zero points that are floats.
enum class Starts : uint8_t { none, of_zero, to_multiply, of_one };

// One row or four of `width` f32 elements, a multiple of `block`.
struct RowsToQuantise {
  const float* from = nullptr;
  int64_t stride = 0;  // elements from row to row
  int64_t rows = 1;
  int64_t width = 0;
  int64_t block = 0;
  int64_t height = 0;  // of the destination's blocks of rows
  Starts starts = Starts::none;
  int32_t zero = 0;
};

// Kernels without dot products of integers: those of AVX2 and AVX-512 serve sets with VNNI, too.
// Arrays are indexed by bits (2, 3, 4, 8) first.
struct WeightOnlyF32Table {
  using Gemv = void (*)(const PackedPanels&, const float* a, int64_t a_stride, const ColumnRange&);
  using GemvsOfBits = std::array<Gemv, 4>;  // by m - 1
  using Unpack = void (*)(const PackedPanels&, int64_t block, int64_t blocks, float* codes,
                          float* scales);

  void (*quantise)(const RowsToQuantise& rows, const QuantisedRows& to) = nullptr;
  FitBlock fit = nullptr;  // with the bits of fit_block()
  std::array<GemvsOfBits, 4> gemv{};
  std::array<Unpack, 4> unpack{};  // at most kMaxChunk elements of a panel, for `gemm`
  // Adds chunks times `valid_rows` rows to acc[panel][16][16]; `count` is even.
  void (*gemm)(const UnpackedChunk* panels, int64_t count, const float* a, int64_t a_stride,
               int64_t valid_rows, float* acc) = nullptr;
};

// By bits, then by m - 1.
using WeightOnlyGemvs = std::array<
    std::array<void (*)(const PackedPanels&, const QuantisedRows&, const ColumnRange&), 8>, 4>;

// Arrays are indexed by bits (2, 3, 4, 8) first.
struct WeightOnlyTable {
  // Returns true if zero points are left, to be multiplied by the rows' starts.
  using Unpack = bool (*)(const PackedPanels&, int64_t block, int64_t blocks, void* codes,
                          float* scales, int32_t* zeros);
  using PackedGemm = void (*)(const PackedPanels&, const QuantisedRows&, int64_t valid_rows,
                              const ColumnRange&);

  const WeightOnlyF32Table* f32 = nullptr;
  // In place; count is a multiple of 16.
  void (*round_to_bf16)(float* data, int64_t count) = nullptr;
  int max_gemv_rows = 0;  // largest m of `gemv`; its rows come in blocks of m
  const WeightOnlyGemvs* gemv = nullptr;
  // A block of 16 rows times two packed panels; panel_bytes = 0 means one panel. If null, `unpack`
  // and `gemm` are used.
  std::array<PackedGemm, 4> packed_gemm{};
  // Kernels for minimums in the place of zero points that are floats: starts are the bits of the
  // rows' totals of elements as f32.
  std::array<PackedGemm, 4> minimums_gemm{};
  // Unpacks blocks from `block` on of one panel, at most kMaxChunk elements, for `gemm`.
  std::array<Unpack, 4> unpack{};
  // Adds chunks times a block of 16 rows to acc[panel][16][16]; `count` is even, at most
  // `task_panels`.
  using Gemm = void (*)(const UnpackedChunk* panels, int64_t count, const QuantisedRows& rows,
                        int64_t valid_rows, float* acc);
  Gemm gemm = nullptr;
  Gemm gemm_with_minimums = nullptr;
  // Adds the optional bias and stores rows of accumulators to y.
  template <class T>
  using Store = void (*)(const float* acc, int64_t sums_stride, int64_t rows, int64_t columns,
                         const float* bias, T* y, int64_t stride);
  Store<float> store_f32 = nullptr;
  Store<F16> store_f16 = nullptr;
  Store<Bf16> store_bf16 = nullptr;
  // Panels that a task unpacks at once: chunks of two stay in L1 with the rows and accumulators.
  int64_t task_panels = 2;
  int64_t chunk = kMaxChunk;  // upper bound of a chunk's elements along k
  bool signed_codes = false;  // `unpack` subtracts zero points if all are equal
  // Called before and after the calls of `gemm` in a task, to configure AMX tiles. May be null.
  void (*begin)(int64_t block) = nullptr;
  void (*end)() = nullptr;
};

extern const WeightOnlyF32Table kWeightOnlyF32Avx2;
extern const WeightOnlyF32Table kWeightOnlyF32Avx512;
extern const WeightOnlyGemvs kWeightOnlyGemvAvx512Vnni;  // of AMX, too

extern const WeightOnlyTable kWeightOnlyAvx2;
extern const WeightOnlyTable kWeightOnlyAvx2Vnni;
extern const WeightOnlyTable kWeightOnlyAvx512;
extern const WeightOnlyTable kWeightOnlyAvx512Vnni;
extern const WeightOnlyTable kWeightOnlyAmx;

}  // namespace lathe::cpu
