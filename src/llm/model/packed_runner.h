// SPDX-License-Identifier: MIT
// Runs the tokens of all sequences of a step as one list, without padding.
#pragma once

#include <array>

#include "base/object_pool.h"
#include "llm/model/packed_step.h"
#include "llm/model/step_runner.h"

namespace lathe::llm {

class PackedRunner final : public StepRunner {
 public:
  // `layout`: of the packed program's states.
  PackedRunner(PackedProgram packed, const DecoderInterface& names,
               std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options);

  bool packed() const override { return true; }
  const std::string& not_packed_reason() const override { return not_packed_reason_; }
  Tensor run(std::span<const StepRequest> requests, const CancelToken* cancel) const override;
  void run_into(std::span<const StepRequest> requests, const CancelToken* cancel,
                Tensor& logits) const override;
  std::unique_ptr<PendingStep> begin(std::span<const StepRequest> requests,
                                     const CancelToken* cancel, Tensor& logits) const override;

 private:
  class Pending;
  // Inputs of a step's tokens.
  struct StepTokens : TokenList {
    std::array<std::vector<int64_t>, 3> positions;  // position ids along each axis
    std::vector<int64_t> indices;                   // index of each token in its sequence
    std::vector<int64_t> table_rows;
    std::vector<int64_t> requested;
    void clear();
  };
  // Memory of a step, kept for the next: a step of as many tokens as the last allocates nothing.
  struct Scratch {
    StepTokens tokens;
    std::vector<std::unique_ptr<Rerun>> reruns;  // of each request; null unless it must run again
    PackedStep::Tables tables;
    std::vector<Box> inputs;
    std::vector<Box> results;
  };
  void gather_tokens(std::span<const StepRequest> requests, Scratch& scratch,
                     PackedStep& step) const;
  void add_tokens(const StepRequest& request, StepTokens& tokens) const;
  void fill_inputs(Scratch& scratch, const CancelToken* cancel) const;
  void fill_positions(const Value& parameter, const StepTokens& tokens, Box& input) const;
  // Outputs of tokens [begin, begin + count) of `all`.
  void slice_outputs(std::span<const Box> results, int64_t begin, int64_t count, int64_t all,
                     NamedTensors& outputs) const;

  std::string not_packed_reason_;
  std::string positions_;
  std::string token_numbers_;
  std::string table_rows_;
  mutable ObjectPool<Scratch> idle_;
};

}  // namespace lathe::llm
