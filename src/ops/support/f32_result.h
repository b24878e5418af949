// SPDX-License-Identifier: MIT
// Results of evaluations that compute in f32.
#pragma once

#include <algorithm>

#include "base/thread_scratch.h"
#include "ops/support/views.h"
#include "tensor/convert.h"
#include "tensor/tensor.h"

namespace lathe {

// A dense f32 buffer for a result of any float type and strides; `store` rounds it once.
class F32Result {
 public:
  explicit F32Result(const TensorView& out) : out_(out), values_(out.count()) {
    std::ranges::fill(values_, 0.0F);
  }
  float* data() const { return values_.data(); }
  int64_t count() const { return std::ssize(values_); }

  void store() const {
    if (out_.type == ElementType::f32) {
      return copy_elements(dense_view(out_.type, out_.extents(), values_.data()), out_);
    }
    const ScratchBlock rounded(bytes_for(out_.type, count()));
    convert(out_.type, rounded.data(), ElementType::f32, values_.data(), count());
    copy_elements(dense_view(out_.type, out_.extents(), rounded.data()), out_);
  }

 private:
  TensorView out_;
  ScratchArray<float> values_;
};

}  // namespace lathe
