// SPDX-License-Identifier: MIT
// Packs B into the panels that brgemm reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/gemm/brgemm.h"
#include "tensor/element_type.h"

namespace lathe::cpu {

// B, [k, n], with any strides, in elements. f32 GEMMs accept f32, bf16 or f16; bf16 GEMMs the same,
// rounded half to even; int8 GEMMs accept i8, or u8, packed as u8 - 128.
struct PackSource {
  const void* data = nullptr;
  ElementType type = ElementType::f32;
  int64_t k = 0;
  int64_t n = 0;
  int64_t k_stride = 0;
  int64_t n_stride = 1;
};

// Packed layout: panels, then for int8 the sum of each packed column as i32.
struct PackedLayout {
  int64_t k = 0;
  int64_t n = 0;
  int64_t panel_bytes = 0;  // one panel
  int64_t panels = 0;
  int64_t sums_offset = 0;  // bytes; a multiple of 64
  int64_t bytes = 0;        // total
};
PackedLayout packed_layout(const BrgemmKernel& kernel, GemmType gemm, int64_t k, int64_t n);

// Identifies the layout: packings with the same id, k and n are byte-identical for all instruction
// sets that use it.
std::string packing_id(const BrgemmKernel& kernel, GemmType gemm);

// Reads B once and writes `out` once; `out` is aligned to 64 bytes. InvalidArgument for an
// unsupported element type.
void pack_b(const BrgemmKernel& kernel, GemmType gemm, const PackSource& source, void* out,
            ThreadPool* pool);
// Inverse of pack_b, up to its rounding: f32, bf16 or i8 elements, [k, n].
void unpack_b(const BrgemmKernel& kernel, GemmType gemm, int64_t k, int64_t n, const void* packed,
              void* rows);

// A column of packed panels: groups of k, one every `stride` bytes.
struct PanelColumn {
  const std::byte* first = nullptr;
  int64_t stride = 0;
  int64_t group = 0;  // bytes: 2 or 4
};
PanelColumn column_of_b(const BrgemmKernel& kernel, const PackedLayout& layout, const void* packed,
                        int64_t column);
// Writes the column's first `bytes`, an even number.
void read_column(const PanelColumn& column, int64_t bytes, void* to);

// Column sums of an int8 packing.
inline const int32_t* packed_sums(const PackedLayout& layout, const void* packed) {
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(packed) + layout.sums_offset);
}

}  // namespace lathe::cpu
