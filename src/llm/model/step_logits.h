// SPDX-License-Identifier: MIT
// Logits of the tokens that a step's requests name, in order, where the program wrote them: in the
// model's type, possibly on a device. What reads them on the host copies them.
#pragma once

#include <memory>
#include <utility>

#include "plan/device.h"
#include "tensor/tensor.h"

namespace lathe::llm {

class StepLogits {
 public:
  StepLogits() = default;
  // Floats [..., vocabulary], dense; `device`: of the memory, null: the host's.
  explicit StepLogits(Tensor values, const Device* device = nullptr) {
    set(std::move(values), device);
  }
  void set(Tensor values, const Device* device);

  int64_t count() const { return count_; }  // tokens
  int64_t vocabulary() const { return vocabulary_; }
  const Device* device() const { return device_; }
  // [tokens, vocabulary]
  TensorView view() const;
  // Those of tokens [begin, begin + count), as f32.
  void read(int64_t begin, int64_t count, float* to) const;
  // All, f32 [tokens, vocabulary] on the host.
  Tensor to_host() const;
  // The values, whose memory a later step may reuse.
  Tensor take();

 private:
  Tensor values_;
  const Device* device_ = nullptr;
  int64_t count_ = 0;
  int64_t vocabulary_ = 0;
  mutable std::unique_ptr<Stream> stream_;  // of copies from the device
};

}  // namespace lathe::llm
