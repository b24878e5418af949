// SPDX-License-Identifier: MIT
#include "ops/support/dense_tensor.h"

#include "ops/support/views.h"
#include "tensor/convert.h"

namespace lathe {

Tensor dense_tensor(const TensorView& view, ElementType as) {
  const Dims dims = dims_of(view);
  Tensor dense(view.type, dims);
  copy_elements(view, dense.view());
  if (view.type == as) return dense;
  Tensor converted(as, dims);
  convert(as, converted.data(), view.type, dense.data(), dense.count());
  return converted;
}

void store_tensor(const Tensor& from, const TensorView& result) {
  if (from.type() == result.type) return copy_elements(from.view(), result);
  Tensor converted(result.type, from.dims());
  convert(result.type, converted.data(), from.type(), from.data(), from.count());
  copy_elements(converted.view(), result);
}

double single_number(const Evaluation& c, int i, double fallback) {
  if (!c.has(i) || c.in(i).count() == 0) return fallback;
  c.check(c.in(i).count() == 1, "operand {} has {} elements, expected 1", i, c.in(i).count());
  return load_double(c.in(i).type, c.in(i).data, 0);
}

}  // namespace lathe
