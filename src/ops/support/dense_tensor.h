// SPDX-License-Identifier: MIT
// Dense copies under another element type, for evaluations whose loops index flat memory.
#pragma once

#include "ops/evaluation.h"

namespace lathe {

// A dense row-major copy of `view`, converted to `as`.
Tensor dense_tensor(const TensorView& view, ElementType as);
// Converts the dense `from` to the result's element type and strides; the shapes are equal.
void store_tensor(const Tensor& from, const TensorView& result);
// The single value of operand i as a number, or `fallback` if the operand is absent or empty.
double single_number(const Evaluation& c, int i, double fallback);

// Calls f with a null pointer of the type that floats of this type compute in: double for f64, else
// float.
template <class F>
void with_float_type(ElementType type, F&& f) {
  if (type == ElementType::f64) return f(static_cast<double*>(nullptr));
  f(static_cast<float*>(nullptr));
}
inline ElementType float_type(ElementType type) {
  return type == ElementType::f64 ? ElementType::f64 : ElementType::f32;
}

}  // namespace lathe
