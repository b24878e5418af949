// SPDX-License-Identifier: MIT
// Shared by matmul and matmul_integer: numpy's rule for shapes and batches.
#pragma once

#include "ir/infer.h"
#include "ops/support/blocked_gemm.h"

namespace lathe {

inline constexpr TypeSet kMatmulTypes =
    kFloats | types(ElementType::i32, ElementType::i64, ElementType::u32, ElementType::u64);

// Result shape of the product of operands `a` and `b`; requires that they are compatible.
std::vector<Dim> matmul_dims(Infer& c, int a, int b);
// Checks compute_type of matmul and gemm: empty, or "bf16" to round floats first.
void check_compute_type(Infer& c);

// The matrices of each batch.
class MatmulShape {
 public:
  MatmulShape(const TensorView& a, const TensorView& b, const TensorView& y);
  int64_t batch = 1;
  int64_t m = 1;
  int64_t n = 1;
  int64_t k = 0;
  MatrixView a(int64_t index) const;
  MatrixView b(int64_t index) const;
  MatrixView y(int64_t index) const;

 private:
  int64_t offset(const TensorView& view, int matrix_axes, int64_t index) const;
  bool row_;
  bool column_;
  int batch_rank_;
  const TensorView& a_;
  const TensorView& b_;
  const TensorView& y_;
};

}  // namespace lathe
