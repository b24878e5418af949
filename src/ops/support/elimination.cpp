// SPDX-License-Identifier: MIT
#include "ops/support/elimination.h"

#include <algorithm>
#include <cmath>

namespace lathe {

double eliminate(double* a, double* b, int64_t n) {
  double determinant = 1;
  for (int64_t column = 0; column < n; ++column) {
    int64_t pivot = column;
    for (int64_t row = column + 1; row < n; ++row) {
      if (std::abs(a[row * n + column]) > std::abs(a[pivot * n + column])) pivot = row;
    }
    const double head = a[pivot * n + column];
    determinant *= pivot == column ? head : -head;
    if (head == 0 && b == nullptr) return determinant;
    for (double* matrix : {a, b}) {
      if (matrix == nullptr) continue;
      double* row = matrix + column * n;
      if (pivot != column) std::swap_ranges(row, row + n, matrix + pivot * n);
      for (int64_t k = 0; k < n; ++k) row[k] /= head;
    }
    for (int64_t row = b == nullptr ? column + 1 : 0; row < n; ++row) {
      const double factor = a[row * n + column];
      if (row == column || factor == 0) continue;
      for (double* matrix : {a, b}) {
        if (matrix == nullptr) continue;
        for (int64_t k = 0; k < n; ++k) matrix[row * n + k] -= factor * matrix[column * n + k];
      }
    }
  }
  return determinant;
}

}  // namespace lathe
