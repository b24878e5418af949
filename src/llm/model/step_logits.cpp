// SPDX-License-Identifier: MIT
#include "llm/model/step_logits.h"

#include <utility>
#include <vector>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe::llm {

void StepLogits::set(Tensor values, const Device* device) {
  if (device != device_) stream_ = nullptr;
  values_ = std::move(values);
  device_ = device;
  // fail() in a branch, not check(): formatting the arguments allocates.
  if (values_.rank() == 0 || values_.dims().back() == 0 || !values_.is_dense()) {
    fail(ErrorKind::invalid_model, "the logits are {}, expected dense [tokens, vocabulary]",
         to_string(values_.type(), values_.dims()));
  }
  vocabulary_ = values_.dims().back();
  count_ = values_.count() / vocabulary_;
}

TensorView StepLogits::view() const {
  TensorView view;
  view.type = values_.type();
  view.rank = 2;
  view.dims[0] = count_;
  view.dims[1] = view.strides[0] = vocabulary_;
  view.strides[1] = 1;
  view.data = values_.data();
  return view;
}

void StepLogits::read(int64_t begin, int64_t count, float* to) const {
  const int64_t bytes = info(values_.type()).bits / 8;
  const auto* from = values_.as<const std::byte>() + begin * vocabulary_ * bytes;
  if (device_ == nullptr) {
    convert(ElementType::f32, to, values_.type(), from, count * vocabulary_);
    return;
  }
  if (stream_ == nullptr) stream_ = device_->make_stream();
  std::vector<std::byte> narrow;
  void* host = to;
  if (values_.type() != ElementType::f32) {
    narrow.resize(static_cast<size_t>(count * vocabulary_ * bytes));
    host = narrow.data();
  }
  stream_->copy(host, from, static_cast<size_t>(count * vocabulary_ * bytes));
  stream_->synchronize();
  if (host != to) convert(ElementType::f32, to, values_.type(), host, count * vocabulary_);
}

Tensor StepLogits::to_host() const {
  Tensor all(ElementType::f32, {count_, vocabulary_});
  read(0, count_, all.as<float>());
  return all;
}

Tensor StepLogits::take() {
  count_ = vocabulary_ = 0;
  return std::exchange(values_, Tensor());
}

}  // namespace lathe::llm
