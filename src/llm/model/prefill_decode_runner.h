// SPDX-License-Identifier: MIT
// A prefill and a decode program over the same KV caches, as in pipelines with separate stages. As
// in ONNX Runtime GenAI, a request of several tokens is a prefill and one of a single token a
// decode. A step with both kinds makes two runs and one commit.
#pragma once

#include <vector>

#include "llm/model/step_runner.h"

namespace lathe::llm {

// States of both programs, matched by name, each with the larger window. Unsupported if a state
// differs.
std::vector<SequenceState> join_states(const std::vector<SequenceState>& prompt,
                                       const std::vector<SequenceState>& token);
// Checks that both layouts have matching states in the same order.
void check_alike(const CacheLayout& prompt, const CacheLayout& token);

class PrefillDecodeRunner final : public StepRunner {
 public:
  // Both programs share one layout; both are packed, or both run one sequence at a time.
  PrefillDecodeRunner(std::unique_ptr<StepRunner> prompt, std::unique_ptr<StepRunner> token);

  bool packed() const override { return token_->packed(); }
  const std::string& not_packed_reason() const override { return token_->not_packed_reason(); }
  void run(std::span<const StepRequest> requests, const CancelToken* cancel,
           StepLogits& logits) const override;
  const Plan* prompt_plan() const override { return &prompt_->plan(); }
  void profile(Profiler* profiler) override {
    prompt_->profile(profiler);
    token_->profile(profiler);
  }
  void set_embedder(std::shared_ptr<const Embedder> embedder) override;

 private:
  bool is_prompt(const StepRequest& request) const;
  void run_both(std::span<const StepRequest> requests, const CancelToken* cancel,
                StepLogits& logits) const;

  std::unique_ptr<StepRunner> prompt_;
  std::unique_ptr<StepRunner> token_;
};

}  // namespace lathe::llm
