// SPDX-License-Identifier: MIT
// GEMM with weights of 2, 3, 4 or 8 bits. Groups along k have a scale and an optional zero point:
// y[m, n] = a[m, k] · ((code - zero) · scale)[n, k]ᵀ + bias[n].
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/simd/isa.h"
#include "targets/cpu/kernels/weight_only/compact_form.h"
#include "tensor/element_type.h"
#include "tensor/fit_block.h"

namespace lathe::cpu {

// Compute type of the activations.
// int8: per row and block s = max|a| / 127, q = round-half-even(a · (127 / max|a|)). Per block,
//   the exact integer dot product is converted to f32 and added times (s · scale) by fma; zero
//   points that are floats are first subtracted from that of the codes, times the sum of q, by fma.
//   Minimums are added after, times (s · the sum of q), by fma.
// bf16, f32: (code - zero) is exact. Per block, the two halves of every 32 elements along k
//   have separate accumulators, by fma in order. Their sum times the scale is added by fma.
// f32 with compact weights: three int8 rows, of which each has what is left of a, added in order.
// A row's bits depend on neither the other rows, the variant nor the threads.
enum class WeightOnlyCompute : uint8_t { int8, bf16, f32 };

struct WeightOnlyProblem {
  int64_t k = 0;
  int64_t n = 0;
  int bits = 4;
  int64_t block = 32;  // elements along k that share a scale
  ElementType scale_type = ElementType::f32;
  // u8: packed codes; f32, f16, bf16: values. None: 2^(bits - 1).
  std::optional<ElementType> zero_type;
  // How weights are held that pack_compact() packs: of kCompactForms, with its block. The plain
  // form, in which most kernels read them, has plain_bits(), f32 scales in place of int8 ones and
  // f32 zero points in place of minimums.
  std::optional<CompactForm> compact;
  const int8_t* levels = nullptr;  // 16 of them
  bool grouped = false;            // g_idx: element i along k belongs to block groups[i]
  ElementType a_type = ElementType::f32;
  ElementType y_type = ElementType::f32;
  WeightOnlyCompute compute = WeightOnlyCompute::f32;
  // y has n / 2 columns: x · sigmoid(swiglu · x) times what is n / 2 columns further. f32 alone.
  std::optional<float> swiglu;
};

// Reason why no kernel supports the problem; empty if one does.
std::string weight_only_refusal(const WeightOnlyProblem& problem);

// Weights in the file's layout. Each column has its blocks along k, low bits first, the last one
// padded. Scales are [n, blocks]. Zero points are packed per column from a byte boundary, or floats
// [n, blocks].
struct WeightOnlySource {
  const uint8_t* codes = nullptr;
  const void* scales = nullptr;
  const void* zeros = nullptr;
  std::span<const int32_t> groups;  // [k] if the problem is grouped
};

// Layout of packed weights: panels of 16 columns, each a sequence of cells along k in the order
// that the GEMM reads. A cell is one block, or two blocks of 16 elements. It has the codes in tiles
// of 32 along k, then scales [blocks, 16] in the file's type. Zero points [blocks, 16] as u8 or f32
// follow. A 4-bit tile is four vectors of 64 bytes: dword c of vector i belongs to column c. Its
// low nibbles have elements 4i…4i+3, its high nibbles 16+4i…16+4i+3. 2 bits: two vectors, quad 2p+i
// at bit 2p. 3 bits: those two and a vector of high bits. 8 bits: eight vectors. A grouped problem
// appends i32 [blocks · block], the source index of each element.
struct WeightOnlyLayout {
  int64_t blocks = 0;  // along k as packed: a group larger than a block takes several
  int64_t cells = 0;   // cells of a panel
  int64_t panels = 0;
  int64_t scales_at = 0;  // byte offset in a cell
  int64_t zeros_at = 0;   // byte offset in a cell; 0: none
  int64_t cell_bytes = 0;
  int64_t panel_bytes = 0;         // of the plain form
  int64_t packed_panel_bytes = 0;  // as packed: differs in compact forms
  int64_t gather_at = -1;          // byte offset in the packed weights; -1: none
  int64_t bytes = 0;
};
// InvalidModel if a group is outside the blocks.
WeightOnlyLayout weight_only_layout(const WeightOnlyProblem& problem,
                                    std::span<const int32_t> groups = {});

// Identifies the packed form: equal ids and sources have equal bytes on all instruction sets.
std::string weight_only_packing_id(const WeightOnlyProblem& problem);

// Reads the source once; `packed` is aligned to 64 bytes and has layout.bytes.
void pack_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                      const WeightOnlySource& source, void* packed, ThreadPool* pool);
// Packs a source that is made as it is packed: writes the codes, scales and zero points of `count`
// columns from `first` on. Thread-safe. Zero points are f32 or there are none; not grouped.
struct WeightOnlyColumns {
  uint8_t* codes = nullptr;
  void* scales = nullptr;
  float* zeros = nullptr;
};
using MakeColumns =
    std::function<void(int64_t first, int64_t count, const WeightOnlyColumns& columns)>;
void pack_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                      const MakeColumns& make, void* packed, ThreadPool* pool);
// Columns of compact forms.
using MakeCompactColumns =
    std::function<void(int64_t first, int64_t count, const CompactColumns& columns)>;
void pack_compact(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                  const MakeCompactColumns& make, void* packed, ThreadPool* pool);
// fit_block(), with equal bits, for the instruction set.
FitBlock weight_only_fit(Isa isa);
// The inverse. Exact except for the padding of the last block. If grouped, elements after the
// file's k are not restored. Writes the full buffers.
void unpack_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                        const void* packed, std::span<const int32_t> groups, uint8_t* codes,
                        void* scales, void* zeros);

// Column `n` of the weights: (code - zero) · scale, [k]. For problems that are neither grouped nor
// compact.
void weight_only_row(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                     const void* packed, int64_t n, float* to);
// The source has this column alone, with f32 zero points or none.
void weight_only_row(const WeightOnlyProblem& problem, const WeightOnlySource& column, float* to);

struct WeightOnlyCall {
  const void* a = nullptr;
  int64_t a_stride = 0;  // elements from row to row
  int64_t m = 0;
  void* y = nullptr;
  int64_t y_stride = 0;
  const float* bias = nullptr;  // [n], or null
  void* workspace = nullptr;    // weight_only_workspace() bytes, aligned to 64
};
int64_t weight_only_workspace(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                              int64_t m);
// The kernel that m rows use, for `explain`.
std::string_view weight_only_variant(const WeightOnlyProblem& problem, int64_t m, Isa isa);
void run_weight_only(const WeightOnlyProblem& problem, const WeightOnlyLayout& layout,
                     const void* packed, const WeightOnlyCall& call, Isa isa, ThreadPool* pool);

}  // namespace lathe::cpu
