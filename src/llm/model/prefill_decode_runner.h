// SPDX-License-Identifier: MIT
// Two programs over the caches of the same sequences, as pipelines with stages for prompts alone
// and for single tokens alone have them. Which one runs a request follows from its rows as in ONNX
// Runtime GenAI: several at once are a prompt's, also behind others; one is a single token, also if
// it is all of the prompt. Requests of both kinds in a step make two runs, which count together.
#pragma once

#include <vector>

#include "llm/model/step_runner.h"

namespace lathe::llm {

// States that both programs keep, under the same names; each as wide a window as either needs.
// Unsupported, with the first that differs, if they do not keep the same.
std::vector<SequenceState> join_states(const std::vector<SequenceState>& prompt,
                                       const std::vector<SequenceState>& token);
// The same of layouts in which each state is a tensor, in the same order.
void check_alike(const CacheLayout& prompt, const CacheLayout& token);

class PrefillDecodeRunner final : public StepRunner {
 public:
  // Both packed, or both item by item, over one layout.
  PrefillDecodeRunner(std::unique_ptr<StepRunner> prompt, std::unique_ptr<StepRunner> token);

  bool packed() const override { return token_->packed(); }
  const std::string& not_packed_reason() const override { return token_->not_packed_reason(); }
  Tensor run(std::span<const StepRequest> requests, const CancelToken* cancel) const override;
  void run_into(std::span<const StepRequest> requests, const CancelToken* cancel,
                Tensor& logits) const override;
  const Plan* prompt_plan() const override { return &prompt_->plan(); }
  void profile(Profiler* profiler) override {
    prompt_->profile(profiler);
    token_->profile(profiler);
  }
  void set_embedder(std::shared_ptr<const Embedder> embedder) override;

 private:
  bool is_prompt(const StepRequest& request) const;
  void run_both(std::span<const StepRequest> requests, const CancelToken* cancel,
                Tensor& logits) const;

  std::unique_ptr<StepRunner> prompt_;
  std::unique_ptr<StepRunner> token_;
};

}  // namespace lathe::llm
