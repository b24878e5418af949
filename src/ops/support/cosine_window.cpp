// SPDX-License-Identifier: MIT
#include "ops/support/cosine_window.h"

#include <cmath>
#include <numbers>

#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"
#include "ops/support/requirements.h"

namespace lathe {

std::vector<AttributeSpec> cosine_window_attributes() {
  return {{"output_datatype", Attribute(ElementType::f32)}, {"periodic", Attribute(true)}};
}

void infer_cosine_window(Infer& c) {
  const Dim* size = single_element(c, 0);
  if (size != nullptr) c.require_less_equal(0, *size, "size");
  c.result(c.element_type("output_datatype"), {size != nullptr ? *size : c.found("window")});
}

void eval_cosine_window(Evaluation& c, const std::array<double, 3>& a) {
  const int64_t size = single_value(c, 0, 0);
  const TensorView& out = c.out(0, std::array{size});
  const Tensor window(ElementType::f64, {size});
  const int64_t n = std::max<int64_t>(c.boolean("periodic") ? size : size - 1, 1);
  for (int64_t i = 0; i < size; ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    window.as<double>()[i] = a[0] - a[1] * std::cos(angle) + a[2] * std::cos(2 * angle);
  }
  store_tensor(window, out);
}

}  // namespace lathe
