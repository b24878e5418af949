// SPDX-License-Identifier: MIT
// Matrix products C = epilogue(A · B) over one packed B, for any number of rows.
//
// A row's bits depend on that row and on B alone: not on the other rows, the variant, the number
// of threads or how work is cut. B's shape alone decides whether K is split.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/gemm/brgemm.h"
#include "targets/cpu/kernels/gemm/pack.h"

namespace lathe::cpu {

struct MatmulCall {
  Isa isa = Isa::avx2;
  GemmType product = GemmType::f32;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  // A: numbers of the product's type, or f32, f16 where the product is bf16 or f32. Elements.
  const void* a = nullptr;
  ElementType a_type = ElementType::f32;
  int64_t a_row_stride = 0;
  int64_t a_column_stride = 1;

  const void* b = nullptr;  // packed by pack_b for this instruction set and product

  void* out = nullptr;
  int64_t out_row_stride = 0;  // elements of epilogue.out
  Epilogue epilogue;  // `column_compensation` and `outer` are added to what zero points need

  // Zero points of integers: of all A or of each of its rows; of each column of B, as packed (128
  // less for u8). B's cost a pass over A.
  int32_t a_zero = 0;
  const int32_t* a_zeros = nullptr;
  const int32_t* b_zeros = nullptr;

  // Products of equal shape, one after another; elements, and bytes of packed B (0: one B for all).
  // The epilogue's row counts on through the batch: row i of product j is first_row + i + j m.
  int64_t batch = 1;
  int64_t first_row = 0;
  int64_t a_batch_stride = 0;
  int64_t b_batch_stride = 0;
  int64_t out_batch_stride = 0;
};

// How a product is cut. All variants run on the same packing and give the same bits.
struct MatmulVariant {
  const char* name;   // "matrix-vector", "skinny", "square"
  int64_t most_rows;  // of A that it is for
  void (*run)(const MatmulCall& call, ThreadPool* pool);
};
std::span<const MatmulVariant> matmul_variants();

// By the first variant that is for it.
void matmul(const MatmulCall& call, ThreadPool* pool);

// B given as it is, packed on the way; elements between the Bs of a batch (0: one B for all).
void matmul_dynamic(const MatmulCall& call, const PackSource& b, int64_t b_batch_stride,
                    ThreadPool* pool);

// Into how many parts K is split: sums of the parts, each from zero, are added in rising order.
int64_t split_of_k(int64_t n, int64_t k);

}  // namespace lathe::cpu
