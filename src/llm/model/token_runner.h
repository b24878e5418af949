// SPDX-License-Identifier: MIT
// Decoders that take one token of each sequence, [batch], and give logits [batch, vocabulary], as
// translation models with recurrent states do. States are [layers, batch, …], what an encoder gave
// is [batch, …], and all sequences of a run are equally far.
#pragma once

#include "llm/model/step_runner.h"

namespace lathe::llm {

// Whether the tokens have no axis of rows.
bool takes_single_tokens(const Program& program, const DecoderInterface& names);

class TokenRunner final : public StepRunner {
 public:
  // Unsupported if the program has other inputs.
  TokenRunner(const Program& program, const DecoderInterface& names, const RunnerOptions& options);

  bool packed() const override { return false; }
  const std::string& not_packed_reason() const override { return not_packed_reason_; }
  Tensor run(std::span<const StepRequest> requests, const CancelToken* cancel) const override;

 private:
  // What a request has come to within a step.
  struct Progress {
    const StepRequest* request;
    std::vector<Tensor> states;  // of batch 1: those that change, then what an encoder gave
    std::vector<Tensor> logits;
    size_t done = 0;
    int64_t position() const { return request->sequence->length() + static_cast<int64_t>(done); }
  };
  bool fits(const Progress& a, const Progress& b) const;
  Tensor make(const Value& parameter, std::span<Progress* const> group) const;
  void advance(std::span<Progress* const> group, const CancelToken* cancel) const;

  int64_t batch_;  // that the program is made for; 0: any
  std::vector<size_t> presents_;
  std::string not_packed_reason_;
};

}  // namespace lathe::llm
