// SPDX-License-Identifier: MIT
#include <cmath>

#include "ir/infer.h"
#include "ops/support/dense_tensor.h"

namespace lathe {
namespace {

// Gaussian elimination with partial pivoting; overwrites the n x n matrix.
double determinant(double* matrix, int64_t n) {
  double product = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row) {
      if (std::abs(matrix[row * n + column]) > std::abs(matrix[pivot * n + column])) pivot = row;
    }
    if (pivot != column) {
      std::swap_ranges(matrix + pivot * n, matrix + (pivot + 1) * n, matrix + column * n);
      product = -product;
    }
    const double head = matrix[column * n + column];
    product *= head;
    if (head == 0) return product;
    for (int64_t row = column + 1; row < n; ++row) {
      const double factor = matrix[row * n + column] / head;
      for (int64_t k = column; k < n; ++k) matrix[row * n + k] -= factor * matrix[column * n + k];
    }
  }
  return product;
}

}  // namespace

static const Register det{{
    .name = "det",
    .doc = "The determinant of each matrix of the last two axes.",
    .operands = {{"x", kFloats}},
    .infer =
        [](Infer& c) {
          c.check(c.rank(0) >= 2, "x has rank {}, expected at least 2", c.rank(0));
          c.require_equal(c.dim(0, c.rank(0) - 2), c.dim(0, c.rank(0) - 1), "rows and columns");
          c.result(c.element(0), {c.dims(0).begin(), c.dims(0).end() - 2});
        },
    .eval =
        [](Evaluation& c) {
          const Tensor x = dense_tensor(c.in(0), ElementType::f64);
          const int64_t n = x.dims().back();
          const TensorView& out = c.out(0);
          const Tensor results(ElementType::f64, Dims(out.extents().begin(), out.extents().end()));
          for (int64_t i = 0; i < results.count(); ++i) {
            results.as<double>()[i] = determinant(x.as<double>() + i * n * n, n);
          }
          store_tensor(results, out);
        },
}};

}  // namespace lathe
