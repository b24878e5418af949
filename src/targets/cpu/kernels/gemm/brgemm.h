// SPDX-License-Identifier: MIT
// Batch-reduce products: rows of sums over a list of pairs of blocks, A_b · B_b, finished by an
// epilogue. Matrix products, convolutions (a block per tap) and attention stand on it.
//
// B is packed in panels of `panel_columns` columns: per panel, for each group of `k_group` rows of
// B, the panel's columns side by side, each with its group of numbers; 4 bytes per column and
// group. K is padded with zeros to whole groups, the last panel with zeros to whole panels. A is
// read in place: rows at any distance, numbers of a row side by side; nothing beyond k is read.
//
// Sums run over the blocks in their order, and in each over k from 0 on, whatever the numbers of
// rows and columns: a row's bits depend on nothing else in the call.
#pragma once

#include <cstdint>
#include <numeric>

#include "targets/cpu/kernels/gemm/epilogue.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

// Types of A and B; sums are f32, or i32 modulo 2^32.
enum class GemmType : uint8_t { f32, bf16, u8s8, s8s8 };
inline constexpr int kGemmTypeCount = 4;
constexpr bool has_integer_sums(GemmType p) { return p >= GemmType::u8s8; }
constexpr int64_t a_size(GemmType p) {
  return p == GemmType::f32 ? 4 : p == GemmType::bf16 ? 2 : 1;
}

struct BrgemmBlock {
  const void* a = nullptr;  // of the call's first row
  const void* b = nullptr;  // of the call's first panel
};

struct BrgemmCall {
  const BrgemmBlock* blocks = nullptr;
  int64_t block_count = 0;
  int64_t k = 0;               // numbers in a row of each block
  int64_t a_row_stride = 0;    // bytes; the same for all blocks
  int64_t b_panel_stride = 0;  // bytes; the same for all blocks
  int64_t rows = 0;
  int64_t columns = 0;  // any number; the first column begins a panel
  // Rows in lines of `line_pitch`, of which `line_rows` count, the last line without its others:
  // the rest may be multiplied but goes nowhere, and rows of `out` and of the epilogue are those
  // that count. 0: all count. For kernels that take lines, and calls without `start`.
  int64_t line_pitch = 0;
  int64_t line_rows = 0;
  // The panels are in no near cache: each is fetched while the one before it is in use; and the
  // panel behind the last one too.
  bool b_is_cold = false;
  bool b_goes_on = false;
  // Calls on the same panels share out what each fetches of those behind: this one's part, of all.
  int64_t fetch_part = 0;
  int64_t fetch_parts = 1;
  bool a_is_cold = false;      // nor are the rows of A
  bool out_is_cached = false;  // results are at hand: their lines need not be asked for
  // What is read after this call: asked for, as far as it goes, while rows are multiplied.
  const void* ahead = nullptr;
  int64_t prefetch_bytes = 0;

  // Sums to go on from, in place of zeros: f32 or i32, elements between rows.
  const void* start = nullptr;
  int64_t start_stride = 0;

  void* out = nullptr;
  int64_t out_stride = 0;              // bytes between rows
  const Epilogue* epilogue = nullptr;  // null: sums as they are
  int64_t row = 0;                     // of the epilogue's operands
  int64_t column = 0;
};

struct BrgemmKernel {
  void (*run)(const BrgemmCall& call);
  int panel_columns;
  int k_group;         // numbers of a column side by side: 1, 2 or 4
  int row_tile;        // rows that go through registers together, at best
  int a_zero_shift;    // what the kernel adds to each number of A: the caller corrects by
                       // column_compensation -a_zero_shift · (the column's sum of B); 128 for s8s8
                       // without signed products
  bool is_native;      // the processor multiplies these types; else they are widened
  bool rereads_lines;  // of A, 4 bytes at a time: the lines of a tile's rows must stay in the cache
  bool takes_lines = false;
  int panels_together = 1;  // in a tile, where there are so many
  // Of one that does not take lines: whether it takes those of this call.
  bool (*takes_lines_of)(const BrgemmCall& call) = nullptr;
};
const BrgemmKernel& brgemm_kernel(Isa isa, GemmType product);

// The instruction set, of those that `isa` includes, whose kernel takes the least time for m rows
// by k × n. Another one than `isa` only where sums are integers, and so the results the same.
Isa fastest_isa(Isa isa, GemmType product, int64_t m, int64_t n, int64_t k);

// Bytes of B's panels for k rows and n columns.
constexpr int64_t packed_panel_bytes(const BrgemmKernel& kernel, int64_t k) {
  return (k + kernel.k_group - 1) / kernel.k_group * kernel.panel_columns * 4;
}
constexpr int64_t panel_count(const BrgemmKernel& kernel, int64_t n) {
  return (n + kernel.panel_columns - 1) / kernel.panel_columns;
}

// Whether the lines of a tile's rows at the same k crowd into few sets of a first cache with 64
// sets of 8 ways, and leave few of each to panels: they are gone before they are read again. Tiles
// of 6 rows stay at any distance (0 to 12 % faster in place than from a copy, on Zen 4).
constexpr bool has_set_conflicts(const BrgemmKernel& kernel, int64_t row_bytes) {
  constexpr int64_t kLine = 64, kSets = 64, kMostWays = 6;
  if (!kernel.rereads_lines || row_bytes % kLine != 0) return false;
  return kernel.row_tile * std::gcd(row_bytes / kLine, kSets) > kMostWays * kSets;
}
// Bytes from row to row, at least so many: whole lines, an odd number, which spread over all sets.
constexpr int64_t conflict_free_row_bytes(int64_t bytes) { return ((bytes + 63) / 64 | 1) * 64; }

}  // namespace lathe::cpu
