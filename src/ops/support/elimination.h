// SPDX-License-Identifier: MIT
// Gaussian elimination with partial pivoting.
#pragma once

#include <cstdint>

namespace lathe {

// Returns the determinant of the n x n matrix `a` and overwrites it. With `b`, an n x n matrix too,
// continues to the unit matrix (Gauss-Jordan) and does to `b` what it does to `a`: the unit matrix
// becomes the inverse, with infinite or undefined elements if `a` is singular.
double eliminate(double* a, double* b, int64_t n);

}  // namespace lathe
