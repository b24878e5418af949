// SPDX-License-Identifier: MIT
// Products with weights of 2, 3, 4 or 8 bits in groups along k, each with a scale and, where the
// file has them, a zero point: y[m, n] = a[m, k] · ((code - zero) · scale)[n, k]ᵀ + bias[n].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/element_type.h"

namespace lathe::cpu {

// What the activations become.
// int8: per row and block s = max|a| / 127, q = round-half-even(a · (127 / max|a|)); an exact
//   integer sum per block, converted, times (s · scale), added by fma in order of k.
// bf16, f32: (code - zero) is exact; per block the sums of the lower and the upper half of every
//   32 along k, each in order by fma, are added; times the scale, added by fma in order of k.
// A row's bits depend on neither the other rows, the variant nor the threads.
enum class WeightOnlyCompute : uint8_t { int8, bf16, f32 };

struct WeightOnlyProblem {
  int64_t k = 0;
  int64_t n = 0;
  int bits = 4;
  int64_t block = 32;  // elements along k that share a scale
  ElementType scale_type = ElementType::f32;
  std::optional<ElementType> zero_type;  // u8: packed codes; or floats. None: 2^(bits - 1)
  bool grouped = false;                  // g_idx: element i along k belongs to block groups[i]
  ElementType a_type = ElementType::f32;
  ElementType y_type = ElementType::f32;
  WeightOnlyCompute compute = WeightOnlyCompute::f32;
};

// Why no kernel takes the problem; empty if one does.
std::string weight_only_refusal(const WeightOnlyProblem& problem);

// The weights as files hold them: per column its blocks along k, low bits first, the last one
// filled up; scales [n, blocks]; zero points packed per column, each column beginning at a byte,
// or floats [n, blocks].
struct WeightOnlySource {
  const uint8_t* codes = nullptr;
  const void* scales = nullptr;
  const void* zeros = nullptr;
  std::span<const int32_t> groups;  // k of them if the problem is grouped
};

// Where things lie in packed weights: panels of 16 columns, each a sequence of cells along k, one
// after the other as a product reads them. A cell is a block, or two of 16 elements: its codes in
// tiles of 32 along k, then scales [blocks, 16] in the file's type, then zero points [blocks, 16]
// as u8 or f32. A tile of 4 bits is four vectors of 64 bytes: dword c of vector i has column c's
// elements 4i…4i+3 in the low halves of its bytes and 16+4i… in the high ones (2 bits: two vectors,
// quad 2p+i at bit 2p; 3 bits: those and a vector with the high bits; 8 bits: eight vectors).
// Behind the panels of a grouped problem: i32 [blocks · block], where each element comes from.
struct WeightOnlyLayout {
  int64_t blocks = 0;  // along k as packed: a group larger than a block takes several
  int64_t cells = 0;   // of a panel
  int64_t panels = 0;
  int64_t scales_at = 0;  // bytes into a cell
  int64_t zeros_at = 0;   // 0: none
  int64_t cell_bytes = 0;
  int64_t panel_bytes = 0;
  int64_t gather_at = -1;  // bytes into the whole; -1: none
  int64_t bytes = 0;
};
// InvalidModel if a group lies outside the blocks.
WeightOnlyLayout weight_only_layout(const WeightOnlyProblem& problem,
                                    std::span<const int32_t> groups = {});

// Names the packed form: equal ids and equal sources give equal bytes, on every instruction set.
std::string weight_only_packing_id(const WeightOnlyProblem& problem);

// One pass over the source; `packed` is aligned to 64 bytes and holds layout.bytes.
void pack_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                      const WeightOnlySource& source, void* packed, ThreadPool* pool);
// The inverse, exact except in the filling of the last block and, for a grouped problem, of the
// elements between a file's k and its last block's end. Buffers are written whole.
void unpack_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                        const void* packed, std::span<const int32_t> groups, uint8_t* codes,
                        void* scales, void* zeros);

struct WeightOnlyCall {
  const void* a = nullptr;
  int64_t a_stride = 0;  // elements from row to row
  int64_t m = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
  const float* bias = nullptr;  // n of them, or none
  void* workspace = nullptr;    // weight_only_workspace() bytes, aligned to 64
};
int64_t weight_only_workspace(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                              int64_t m);
// Which kernel m rows run through, for `explain`.
std::string_view weight_only_variant(const WeightOnlyProblem& problem, int64_t m, Isa isa);
void run_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                     const void* packed, const WeightOnlyCall& call, Isa isa, ThreadPool* pool);

}  // namespace lathe::cpu
