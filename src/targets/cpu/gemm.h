// SPDX-License-Identifier: MIT
// What the kernels of matrix products share: operands as strided matrices, constant weights packed
// when the plan is made, batches as one call where their strides allow.
#pragma once

#include <optional>

#include "ops/support/matmul.h"
#include "targets/cpu/kernels/gemm/matmul.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/weight_store.h"

namespace lathe::cpu {

// The product for operands of these types; none where there is no kernel.
std::optional<GemmType> gemm_type_of(ElementType a, ElementType b);
// Why there is none; empty if there is one.
std::string why_no_product(ElementType a, ElementType b);

// A constant matrix, k rows of n columns, in panels.
class PackedMatrix {
 public:
  // Rows and columns of the tensor exchanged if `transposed`; a vector is a column.
  PackedMatrix(const Tensor& matrix, bool transposed, GemmType gemm_type, Isa isa);
  const void* data() const { return weights_->data(); }
  size_t bytes() const { return weights_->bytes(); }
  int64_t k() const { return k_; }
  int64_t n() const { return n_; }

 private:
  int64_t k_;
  int64_t n_;
  std::shared_ptr<const PackedWeights> weights_;
};

// Runs the products of all batches of `shape` into its dense y. `call` has isa, product, epilogue
// and zero points; b comes from `packed`, or where that is null from shape.b.
void run_products(const MatmulShape& shape, MatmulCall call, const PackedMatrix* packed,
                  ThreadPool* pool);
// The same for one product of the batch.
void run_product(const MatmulShape& shape, int64_t index, MatmulCall call,
                 const PackedMatrix* packed, ThreadPool* pool);

}  // namespace lathe::cpu
