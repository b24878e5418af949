// SPDX-License-Identifier: MIT
#include <cmath>

#include "ir/infer.h"
#include "ops/support/dense_tensor.h"

namespace lathe {
namespace {

// Gauss-Jordan elimination with partial pivoting; overwrites the n x n matrix `a`. A singular
// matrix has infinite or undefined elements.
void invert(double* a, double* inverse, int64_t n) {
  for (int64_t i = 0; i < n * n; ++i) inverse[i] = i % (n + 1) == 0 ? 1 : 0;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
    }
    const double head = 1 / a[pivot * n + column];
    for (double* matrix : {a, inverse}) {
      if (pivot != column) {
        std::swap_ranges(matrix + pivot * n, matrix + (pivot + 1) * n, matrix + column * n);
      }
      for (int64_t k = 0; k < n; ++k) matrix[column * n + k] *= head;
    }
    for (int64_t row = 0; row < n; ++row) {
      const double factor = a[row * n + column];
      if (row == column || factor == 0) continue;
      for (double* matrix : {a, inverse}) {
        for (int64_t k = 0; k < n; ++k) matrix[row * n + k] -= factor * matrix[column * n + k];
      }
    }
  }
}

}  // namespace

static const Register inverse{{
    .name = "inverse",
    .doc = "The inverse of each matrix of the last two axes.",
    .operands = {{"x", kFloats}},
    .infer =
        [](Infer& c) {
          c.check(c.rank(0) >= 2, "x has rank {}, expected at least 2", c.rank(0));
          c.require_equal(c.dim(0, c.rank(0) - 2), c.dim(0, c.rank(0) - 1), "rows and columns");
          c.result(c.element(0), c.dims(0));
        },
    .eval =
        [](Evaluation& c) {
          const Tensor x = dense_tensor(c.in(0), ElementType::f64);
          const int64_t n = x.dims().back();
          const Tensor y(ElementType::f64, x.dims());
          for (int64_t i = 0; i < x.count(); i += n * n) {
            invert(x.as<double>() + i, y.as<double>() + i, n);
          }
          store_tensor(y, c.out(0));
        },
}};

}  // namespace lathe
