// SPDX-License-Identifier: MIT
// Runs each sequence of a step by itself, through the program as its file has it: past tensors in,
// present tensors out. A sequence holds its presents whole; forks share them, for nothing writes to
// them again. A cache that is written in a circle loses rows that others of the same run should
// see: such programs run row by row.
#pragma once

#include <map>

#include "llm/model/step_runner.h"

namespace lathe::llm {

class SequenceRunner final : public StepRunner {
 public:
  // `packed` is empty: it says why, and at what length the program switches tables. `layout`: that
  // of whole_layout(), or of another program alike.
  SequenceRunner(const Program& program, const DecoderInterface& names,
                 std::shared_ptr<const CacheLayout> layout, const PackedProgram& packed,
                 const RunnerOptions& options);

  bool packed() const override { return false; }
  const std::string& not_packed_reason() const override { return not_packed_reason_; }
  Tensor run(std::span<const StepRequest> requests, const CancelToken* cancel) const override;
  std::unique_ptr<PendingStep> begin(std::span<const StepRequest> requests,
                                     const CancelToken* cancel, Tensor& logits) const override;

 private:
  class Pending;
  // What a parameter of the program is given.
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
    size_t state = 0;  // of a past
  };
  Input input_of(const Value& parameter) const;
  Tensor make(const Input& input, const StepRequest& request, const NamedTensors& embedded) const;
  Tensor wanted_rows(const StepRequest& request, const Tensor& given) const;
  std::vector<Tensor> run_one(const StepRequest& request, const CancelToken* cancel,
                              std::vector<Tensor>& logits) const;
  std::vector<Tensor> run_rows(const StepRequest& request, const CancelToken* cancel,
                               std::vector<Tensor>& logits) const;

  std::string not_packed_reason_;
  bool single_rows_ = false;
  std::map<std::string, int> row_axes_;  // of outputs, where rows run one by one; -1: none
  std::vector<Input> inputs_;
  std::vector<size_t> presents_;  // of each state, among the results
  // Results that are constants, as models that are nothing but a signature have: such logits answer
  // for every row, and such a present stands for as many rows of zeros as there are.
  std::vector<bool> constant_;
};

// How sequences keep a program's states where each is one tensor. Unsupported if it cannot be told
// along which axis a state grows.
std::shared_ptr<const CacheLayout> whole_layout(const Program& program,
                                                const DecoderInterface& names);

}  // namespace lathe::llm
