// SPDX-License-Identifier: MIT
// Runs decoders that take one token of each sequence, [batch], and return logits [batch,
// vocabulary]. Such are translation models with recurrent states. States are [layers, batch, …],
// encoder results [batch, …]. All sequences of a run have equal lengths.
#pragma once

#include "llm/model/step_runner.h"

namespace lathe::llm {

// Whether the token input has no sequence axis.
bool takes_single_tokens(const Program& program, const DecoderInterface& names);

class TokenRunner final : public StepRunner {
 public:
  // Unsupported if the program has other inputs.
  TokenRunner(const Program& program, const DecoderInterface& names, const RunnerOptions& options);

  bool packed() const override { return false; }
  const std::string& not_packed_reason() const override { return not_packed_reason_; }
  void run(std::span<const StepRequest> requests, const CancelToken* cancel,
           StepLogits& joined) const override;

 private:
  // Progress of a request within a step.
  struct Progress {
    const StepRequest* request;
    std::vector<Tensor> states;  // batch 1; recurrent states, then encoder results
    std::vector<Tensor> logits;
    size_t done = 0;
    int64_t position() const { return request->sequence->length() + static_cast<int64_t>(done); }
  };
  bool fits(const Progress& a, const Progress& b) const;
  Tensor make(const Value& parameter, std::span<Progress* const> group) const;
  void advance(std::span<Progress* const> group, const CancelToken* cancel) const;

  int64_t batch_;  // fixed by the program; 0: any
  std::vector<size_t> presents_;
  std::string not_packed_reason_;
};

}  // namespace lathe::llm
