// SPDX-License-Identifier: MIT
// Runs each sequence of a step alone, through the program of its file: past tensors in, present
// tensors out. Forks share present tensors, which nothing writes again. Programs with ring-buffer
// KV caches run token by token: a longer run overwrites slots that its earlier tokens read.
#pragma once

#include <map>

#include "llm/model/step_runner.h"

namespace lathe::llm {

class SequenceRunner final : public StepRunner {
 public:
  // `packed` has no program: it holds the reason and the LongRoPE switch. `layout`: from
  // unpaged_layout(), of this program or of one with the same states.
  SequenceRunner(const Program& program, const DecoderInterface& names,
                 std::shared_ptr<const CacheLayout> layout, const PackedProgram& packed,
                 const RunnerOptions& options);

  bool packed() const override { return false; }
  const std::string& not_packed_reason() const override { return not_packed_reason_; }
  void run(std::span<const StepRequest> requests, const CancelToken* cancel,
           StepLogits& logits) const override;
  std::unique_ptr<PendingStep> begin(std::span<const StepRequest> requests,
                                     const CancelToken* cancel, StepLogits& logits) const override;

 private:
  class Pending;
  // Purpose of a program input.
  enum class Role : uint8_t {
    tokens,
    embeddings,
    positions,
    mask,
    past_length,
    new_length,
    total_length,
    past
  };
  struct Input {
    std::string name{};
    Role role = Role::tokens;
    ElementType element = ElementType::i64;
    int rank = 0;
    size_t state = 0;  // index of a past's state
  };
  Input input_of(const Value& parameter) const;
  Tensor make(const Input& input, const StepRequest& request, const NamedTensors& embedded) const;
  Tensor requested_logits(const StepRequest& request, const Tensor& given) const;
  std::vector<Tensor> run_one(const StepRequest& request, const CancelToken* cancel,
                              std::vector<Tensor>& logits) const;
  std::vector<Tensor> run_request(const StepRequest& request, const CancelToken* cancel,
                                  std::vector<Tensor>& logits) const;

  std::string not_packed_reason_;
  bool token_by_token_ = false;
  std::map<std::string, int> token_axes_;  // of outputs, to join token-by-token runs; -1: none
  std::vector<Input> inputs_;
  std::vector<size_t> presents_;  // of each state, among the results
  // Results that are constants, as in test models without computation: such logits serve every
  // token, and such a present becomes zeros of the current length.
  std::vector<bool> constant_;
};

// Layout with one tensor per state. Unsupported if the axis along which a state grows is ambiguous.
std::shared_ptr<const CacheLayout> unpaged_layout(const Program& program,
                                                  const DecoderInterface& names);

}  // namespace lathe::llm
