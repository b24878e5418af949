// SPDX-License-Identifier: MIT
// GEMM with packed B: C = epilogue(A · B), for any number of rows.
//
// The bits of a row of C depend on that row of A and on B only: not on the other rows, the variant,
// the number of threads or the split into chunks. The shape of B alone decides whether K is split.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/gemm/brgemm.h"
#include "targets/cpu/kernels/gemm/pack.h"

namespace lathe::cpu {

// How a call deviates from the blocking that its variant chooses: a measured choice.
struct MatmulBlocking {
  int variant = -1;     // index into matmul_variants(); -1: the first that covers m
  int log2_rows = 0;    // row blocks are 2^log2_rows times as high
  int log2_panels = 0;  // panel blocks are 2^log2_panels times as wide
};

struct MatmulCall {
  Isa isa = Isa::avx2;
  GemmType type = GemmType::f32;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  // A: elements of the GEMM type; bf16 and f32 GEMMs also accept f32, f16 and bf16. Strides in
  // elements.
  const void* a = nullptr;
  ElementType a_type = ElementType::f32;
  int64_t a_row_stride = 0;
  int64_t a_column_stride = 1;

  const void* b = nullptr;  // packed by pack_b for this instruction set and type
  // bf16 or f16: an f32 GEMM's b, packed by pack_half_panels.
  ElementType b_type = ElementType::f32;

  void* out = nullptr;
  int64_t out_row_stride = 0;  // elements of epilogue.out
  Epilogue
      epilogue;  // `column_compensation` and `outer` are added to the zero points' compensation

  // Zero points of integers: one for A or one per row; one per column of B as packed (128 less for
  // u8). B's require a pass over A.
  int32_t a_zero = 0;
  const int32_t* a_zeros = nullptr;
  const int32_t* b_zeros = nullptr;

  // Batch of GEMMs of one shape. Strides in elements; packed B: bytes, 0: shared B. Epilogue
  // rows continue through the batch: row i of GEMM j is first_row + i + j m.
  int64_t batch = 1;
  int64_t first_row = 0;
  int64_t a_batch_stride = 0;
  int64_t b_batch_stride = 0;
  int64_t out_batch_stride = 0;

  MatmulBlocking blocking;
};

// A blocking strategy. All variants use the same packing and produce the same bits.
struct MatmulVariant {
  const char* name;   // "matrix-vector", "skinny", "square"
  int64_t most_rows;  // largest m for which it is chosen
  void (*run)(const MatmulCall& call, ThreadPool* pool);
};
std::span<const MatmulVariant> matmul_variants();

// Runs the first variant whose most_rows covers m.
void matmul(const MatmulCall& call, ThreadPool* pool);

// GEMM with an unpacked B, packed during the call. Stride in elements between the Bs of a batch (0:
// shared B).
void matmul_dynamic(const MatmulCall& call, const PackSource& b, int64_t b_batch_stride,
                    ThreadPool* pool);

// Number of parts into which K is split. Their accumulators start at zero and are added in
// ascending order.
int64_t split_of_k(int64_t n, int64_t k);

}  // namespace lathe::cpu
