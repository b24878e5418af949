// SPDX-License-Identifier: MIT
// Results of evaluations that compute in f32.
#pragma once

#include "tensor/convert.h"
#include "tensor/tensor.h"

namespace lathe {

// A dense f32 stand-in for a result of any float type and strides; `store` rounds it once.
class FloatResult {
 public:
  explicit FloatResult(const TensorView& out)
      : out_(out), values_(ElementType::f32, Dims(out.extents().begin(), out.extents().end())) {}
  float* data() const { return values_.as<float>(); }
  int64_t count() const { return values_.count(); }

  void store() const {
    if (out_.type == ElementType::f32) return copy_elements(values_.view(), out_);
    const Tensor rounded(out_.type, values_.dims());
    convert(out_.type, rounded.data(), ElementType::f32, values_.data(), values_.count());
    copy_elements(rounded.view(), out_);
  }

 private:
  TensorView out_;
  Tensor values_;
};

}  // namespace lathe
