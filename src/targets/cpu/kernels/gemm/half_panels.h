// SPDX-License-Identifier: MIT
// B of bf16 or f16 under an f32 GEMM: panels as pack.h has them for f32, with 2 bytes per element.
// Up to 4 rows multiply by elements widened in registers, more by a widened copy of the panels.
// Each element of C is the f32 kernel's chain of FMAs along k: same bits.
#pragma once

#include <cstdint>
#include <string>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/gemm/pack.h"

namespace lathe::cpu {

struct HalfPanelsCall {
  ElementType type = ElementType::bf16;  // of B
  const void* a = nullptr;               // f32
  int64_t a_row_stride = 0;              // bytes
  const void* b = nullptr;               // the first panel
  int64_t b_panel_stride = 0;            // bytes
  int64_t k = 0;
  int64_t rows = 0;  // 1 to kMaxHalfRows
  int64_t columns = 0;
  float* sums = nullptr;
  int64_t sums_stride = 0;  // elements
};
inline constexpr int64_t kMaxHalfRows = 4;

struct HalfPanelsKernel {
  void (*multiply)(const HalfPanelsCall& call);
  void (*widen)(ElementType type, const void* from, int64_t count, float* to);
};
const HalfPanelsKernel& half_panels_kernel(Isa isa);

// packed_layout() of f32 in half the bytes.
PackedLayout half_panels_layout(const BrgemmKernel& kernel, int64_t k, int64_t n);
std::string half_panels_id(const BrgemmKernel& kernel, ElementType type);
// `source` is bf16 or f16; its elements stay as they are.
void pack_half_panels(const BrgemmKernel& kernel, const PackSource& source, void* out,
                      ThreadPool* pool);
// Inverse of pack_half_panels: [k, n].
void unpack_half_panels(const BrgemmKernel& kernel, int64_t k, int64_t n, const void* packed,
                        void* rows);

}  // namespace lathe::cpu
