// SPDX-License-Identifier: MIT
// Batch-reduce GEMM: C = epilogue(sum over blocks b of A_b · B_b). Matmul, convolution (a block per
// kernel tap) and attention call it.
//
// B is packed in panels of `panel_columns` columns. A panel stores, for each group of `k_group`
// rows of B, the columns contiguously: 4 bytes per column and group. K is zero-padded to whole
// groups, the last panel to whole columns. A is read in place: any row stride, contiguous elements,
// no read beyond k.
//
// Accumulation runs over the blocks in order, and over k in order within a block. The bits of a row
// of C do not depend on the call's other rows or columns.
#pragma once

#include <cstdint>
#include <numeric>

#include "targets/cpu/kernels/gemm/epilogue.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Element types of A and B. Accumulators are f32, or i32 modulo 2^32.
enum class GemmType : uint8_t { f32, bf16, u8s8, s8s8 };
inline constexpr int kGemmTypeCount = 4;
constexpr bool has_integer_sums(GemmType p) { return p >= GemmType::u8s8; }
constexpr int64_t a_size(GemmType p) {
  return p == GemmType::f32 ? 4 : p == GemmType::bf16 ? 2 : 1;
}

struct BrgemmBlock {
  const void* a = nullptr;  // the call's first row
  const void* b = nullptr;  // the call's first panel
};

struct BrgemmCall {
  const BrgemmBlock* blocks = nullptr;
  int64_t block_count = 0;
  int64_t k = 0;               // elements in a row of each block
  int64_t a_row_stride = 0;    // bytes; the same for all blocks
  int64_t b_panel_stride = 0;  // bytes; the same for all blocks
  int64_t rows = 0;
  int64_t columns = 0;  // any number; the first column starts a panel
  // Convolution over padded input: of every `output_row_pitch` rows, the first `output_row_width`
  // are outputs; the last group has no padding. The kernel may compute the padding but does not
  // store it. `out` and the epilogue's operands have output rows only. 0: every row is an output.
  // Requires `takes_output_rows` or `takes_output_rows_of`, and no `start`.
  int64_t output_row_pitch = 0;
  int64_t output_row_width = 0;
  // B is in neither L1 nor L2: each panel is prefetched while the previous one is in use.
  // `b_continues`: another panel follows the call's last one and is prefetched too.
  bool b_is_cold = false;
  bool b_continues = false;
  // Calls that share panels split the prefetch of the next panels: this call's part, number of
  // parts.
  int64_t prefetch_part = 0;
  int64_t prefetch_parts = 1;
  bool a_is_cold = false;      // A is not in L1: its rows are prefetched
  bool out_is_cached = false;  // C is cached: no prefetch
  // Memory read after this call, prefetched during it while the K loop has steps left.
  const void* prefetch_data = nullptr;
  int64_t prefetch_bytes = 0;

  // Initial accumulators in place of zeros, f32 or i32. Stride in elements.
  const void* start = nullptr;
  int64_t start_stride = 0;

  void* out = nullptr;
  int64_t out_stride = 0;              // bytes between rows
  const Epilogue* epilogue = nullptr;  // null: store the accumulators
  int64_t row = 0;                     // position in the epilogue's operands
  int64_t column = 0;
};

struct BrgemmKernel {
  void (*run)(const BrgemmCall& call);
  int panel_columns;
  int k_group;       // contiguous elements per column: 1, 2 or 4
  int row_tile;      // rows of the largest register tile (mr)
  int a_zero_shift;  // added to each element of A by the kernel; the caller compensates with
                     // column_compensation -a_zero_shift · (sum of B's column); 128 for s8s8
                     // without a signed dot product
  bool is_native;    // the processor multiplies these types; otherwise they are widened
  bool rereads_cache_lines;  // A is read 4 bytes at a time, so the cache lines of a tile's rows
                             // must stay in L1
  bool takes_output_rows = false;
  int panels_per_tile = 1;  // panels in the widest tile (nr)
  // For a kernel without `takes_output_rows`: true if it supports this call's output rows.
  bool (*takes_output_rows_of)(const BrgemmCall& call) = nullptr;
};
const BrgemmKernel& brgemm_kernel(Isa isa, GemmType type);

// Fastest instruction set, among those that `isa` includes, for an m × n × k GEMM. Differs from
// `isa` only with integer accumulators, whose results are identical.
Isa fastest_isa(Isa isa, GemmType type, int64_t m, int64_t n, int64_t k);

// Bytes of B's panel for k rows.
constexpr int64_t packed_panel_bytes(const BrgemmKernel& kernel, int64_t k) {
  return (k + kernel.k_group - 1) / kernel.k_group * kernel.panel_columns * 4;
}
constexpr int64_t panel_count(const BrgemmKernel& kernel, int64_t n) {
  return (n + kernel.panel_columns - 1) / kernel.panel_columns;
}

// True if the tile's rows share too few L1 sets to stay cached (64 sets of 8 ways).
// Tiles of 6 rows stay cached at any stride: 0 to 12 % faster in place than from a copy (Zen 4).
constexpr bool has_set_conflicts(const BrgemmKernel& kernel, int64_t row_bytes) {
  constexpr int64_t kCacheLine = 64, kSets = 64, kMaxWays = 6;
  if (!kernel.rereads_cache_lines || row_bytes % kCacheLine != 0) return false;
  return kernel.row_tile * std::gcd(row_bytes / kCacheLine, kSets) > kMaxWays * kSets;
}
// Row stride of at least `bytes`: an odd number of cache lines, which spreads rows over all L1
// sets.
constexpr int64_t conflict_free_row_bytes(int64_t bytes) { return ((bytes + 63) / 64 | 1) * 64; }

}  // namespace lathe::cpu
