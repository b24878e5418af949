// SPDX-License-Identifier: MIT
// Shared by the GEMM ops: operands as strided matrices, constant weights packed at planning,
// batches as one call if their strides allow it.
#pragma once

#include <optional>
#include <span>

#include "ops/support/matmul.h"
#include "targets/cpu/kernels/gemm/matmul.h"
#include "targets/cpu/operands.h"
#include "targets/cpu/panel_source.h"
#include "targets/cpu/weight_store.h"

namespace lathe::cpu {

// GEMM type of the operands, or of a matmul or gemm; none without a kernel.
std::optional<GemmType> gemm_type_of(ElementType a, ElementType b);
std::optional<GemmType> gemm_type_of(const Instruction& product);
// Reason why there is no kernel; empty if there is one.
std::string why_no_gemm(ElementType a, ElementType b);

// A constant matrix [k, n], packed in panels.
class PackedMatrix {
 public:
  // `transposed` swaps rows and columns of the tensor; a vector is a column.
  PackedMatrix(const Tensor& matrix, bool transposed, GemmType type, Isa isa);
  // Weights of bf16 or f16 stay in 16 bits for an f32 GEMM.
  PackedMatrix(const PanelSource& source, Isa isa);
  const void* data() const { return weights_->data(); }
  size_t bytes() const { return weights_->bytes(); }
  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  ElementType stored_type() const { return stored_type_; }  // f32 unless it keeps 16 bits
  // Writes the k elements of a column as the panels have them: f32, or of 16 bits.
  void read_column(int64_t column, void* to) const;

 private:
  void pack(const Tensor& matrix, bool transposed);
  void pack_halves(std::span<const Tensor* const> halves, bool transposed);
  const BrgemmKernel& kernel() const { return brgemm_kernel(isa_, type_); }

  GemmType type_;
  Isa isa_;
  int64_t k_ = 0;
  int64_t n_ = 0;
  ElementType stored_type_ = ElementType::f32;
  PackedLayout layout_;
  std::shared_ptr<const PackedWeights> weights_;
};

// Runs the GEMMs of all batches of `shape` into its dense y. `call` has isa, type, epilogue and
// zero points. b is `packed` or, if that is null, shape.b.
void run_gemms(const MatmulShape& shape, MatmulCall call, const PackedMatrix* packed,
               ThreadPool* pool);
// Runs one GEMM of the batch.
void run_gemm(const MatmulShape& shape, int64_t index, MatmulCall call, const PackedMatrix* packed,
              ThreadPool* pool);

}  // namespace lathe::cpu
