// SPDX-License-Identifier: MIT
// Weights in the panels that brgemm reads.
#pragma once

#include <cstdint>
#include <string>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/gemm/brgemm.h"
#include "tensor/element_type.h"

namespace lathe::cpu {

// B, k rows of n columns, anywhere in memory; strides in elements. For products of f32 the elements
// may be f32, bf16 or f16; of bf16 the same, rounded half to even; of int8 they are i8, or u8,
// which become 128 less.
struct PackSource {
  const void* data = nullptr;
  ElementType type = ElementType::f32;
  int64_t k = 0;
  int64_t n = 0;
  int64_t k_stride = 0;
  int64_t n_stride = 1;
};

// What a packing is: panels, then for int8 the sum of each packed column as i32.
struct PackedLayout {
  int64_t k = 0;
  int64_t n = 0;
  int64_t panel_bytes = 0;  // of one panel
  int64_t panels = 0;
  int64_t sums_offset = 0;  // bytes; a multiple of 64
  int64_t bytes = 0;        // of everything
};
PackedLayout packed_layout(const BrgemmKernel& kernel, GemmType product, int64_t k, int64_t n);

// Names the bytes: packings of one id and the same k, n are the same for all instruction sets that
// use it.
std::string packing_id(const BrgemmKernel& kernel, GemmType product);

// Reads B once and writes `out` once, through the pool if there is one; `out` is aligned to 64.
// InvalidArgument for a type that the product does not take.
void pack_b(const BrgemmKernel& kernel, GemmType product, const PackSource& source, void* out,
            ThreadPool* pool);
// The inverse, up to the rounding that packing did: f32, bf16 or i8 numbers, row after row.
void unpack_b(const BrgemmKernel& kernel, GemmType product, int64_t k, int64_t n,
              const void* packed, void* rows);

// Sums of columns of an int8 packing.
inline const int32_t* packed_sums(const PackedLayout& layout, const void* packed) {
  return reinterpret_cast<const int32_t*>(static_cast<const char*>(packed) + layout.sums_offset);
}

}  // namespace lathe::cpu
