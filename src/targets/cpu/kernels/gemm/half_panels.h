// SPDX-License-Identifier: MIT
// B of bf16 or f16 under an f32 GEMM: panels as pack.h has them for f32, with 2 bytes per element.
// The panels of a group are interleaved: a row of B's group is contiguous, so that a small M reads
// B sequentially, which the hardware prefetcher follows. Up to 4 rows multiply by elements widened
// in registers, more by a widened copy of the panels. Each element of C is the f32 kernel's chain
// of FMAs along k: same bits.
#pragma once

#include <cstdint>
#include <string>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/gemm/pack.h"

namespace lathe::cpu {

// Groups of nearly equal width, up to 8 panels. Their number is a multiple of 4, or of 2 if there
// are fewer than 16 panels: equal work for as many threads.
inline constexpr int64_t kMaxGroupPanels = 8;
struct HalfGroups {
  explicit HalfGroups(int64_t panels);
  [[gnu::always_inline]] int64_t first(int64_t group) const { return group * panels / count; }
  [[gnu::always_inline]] int64_t group_of(int64_t panel) const {
    return ((panel + 1) * count - 1) / panels;
  }
  int64_t panels;
  int64_t count;
};

struct HalfPanelsCall {
  ElementType type = ElementType::bf16;  // of B
  const void* a = nullptr;               // f32
  int64_t a_row_stride = 0;              // bytes
  const void* b = nullptr;               // packed
  int64_t b_k = 0;                       // rows of B
  int64_t b_panels = 0;                  // of B
  int64_t first = 0;                     // row of B
  int64_t k = 0;                         // rows of B from it on
  int64_t panel = 0;                     // the first one
  int64_t rows = 0;                      // 1 to kMaxHalfRows
  int64_t columns = 0;
  float* sums = nullptr;
  int64_t sums_stride = 0;  // elements
};
inline constexpr int64_t kMaxHalfRows = 8;

struct HalfPanelsKernel {
  void (*multiply)(const HalfPanelsCall& call);
  // Elements of the call's rows and columns of B as f32, in panels one after the other.
  void (*widen)(const HalfPanelsCall& call, float* to);
};
const HalfPanelsKernel& half_panels_kernel(Isa isa);

// packed_layout() of f32 in half the bytes.
PackedLayout half_panels_layout(const BrgemmKernel& kernel, int64_t k, int64_t n);
std::string half_panels_id(const BrgemmKernel& kernel, ElementType type);
// Where whole panels of a source lie in a matrix of several.
struct HalfPart {
  int64_t first = 0;   // panel of the matrix
  int64_t panels = 0;  // of the matrix; 0: it has no other source
};
// Packs `panels` panels of `source` from `first` on; `out` is the whole matrix's. `source` is bf16
// or f16; its elements stay as they are.
void pack_half_panels(const BrgemmKernel& kernel, const PackSource& source, int64_t first,
                      int64_t panels, void* out, ThreadPool* pool, HalfPart part = {});
PanelColumn column_of_half_panels(const BrgemmKernel& kernel, const PackedLayout& layout,
                                  const void* packed, int64_t column);
// Inverse of pack_half_panels: [k, n]. Without groups: of panels one after the other, which earlier
// compiled files have.
void unpack_half_panels(const BrgemmKernel& kernel, int64_t k, int64_t n, bool grouped,
                        const void* packed, void* rows);

}  // namespace lathe::cpu
