// SPDX-License-Identifier: MIT
// Bounds of affine values, and whether their type can hold them.
#pragma once

#include <span>

#include "ir/type.h"
#include "passes/analysis/affine_value.h"

namespace lathe {

// The smallest and the largest value of a form over all indices of a tensor with elements.
struct Bounds {
  Dim least;
  Dim most;
};
Bounds bounds_of(const Linear& linear, std::span<const Dim> dims);

// The number as an element of the type: floats rounded as one operation rounds; NaN for an integer
// that the type or a double may not hold exactly, and for types without numbers.
double element_number(ElementType type, double number);

// No tensor in memory has an axis as long.
inline constexpr int64_t kLongestAxis = int64_t{1} << 47;

// Whether elements of the type hold the value, at all indices, without rounding or overflow.
// `longest`: no symbol is greater.
bool type_holds(const Type& type, const AffineValue& value, int64_t longest);

// Whether all elements of a tensor of indices are in [-extent, extent).
bool indices_within(const AffineValue& indices, std::span<const Dim> dims, const Dim& extent);

}  // namespace lathe
