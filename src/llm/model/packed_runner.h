// SPDX-License-Identifier: MIT
// Runs the tokens of all sequences of a step as one list, without padding.
#pragma once

#include <array>

#include "base/object_pool.h"
#include "llm/model/step_runner.h"
#include "llm/model/step_tables.h"

namespace lathe::llm {

class PackedRunner final : public StepRunner {
 public:
  // `layout`: of the packed program's states.
  PackedRunner(PackedProgram packed, const DecoderInterface& names,
               std::shared_ptr<const CacheLayout> layout, const RunnerOptions& options);
  ~PackedRunner() override;

  bool packed() const override { return true; }
  const std::string& not_packed_reason() const override { return not_packed_reason_; }
  void run(std::span<const StepRequest> requests, const CancelToken* cancel,
           StepLogits& logits) const override;
  std::unique_ptr<PendingStep> begin(std::span<const StepRequest> requests,
                                     const CancelToken* cancel, StepLogits& logits) const override;
  bool starts() const override { return starts_; }
  std::unique_ptr<StartedStep> start(std::span<const StepRequest> requests,
                                     std::span<const ChoiceRequest> choices,
                                     const StartedStep* before) const override;

 private:
  class Pending;
  class Started;
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
    StepTables::Lists tables;
    std::vector<TensorView> memory;  // of the plan's paged states
    std::vector<Box> inputs;
    std::vector<Box> results;
  };
  // Memory of a started step, kept for the next.
  struct StartedMemory {
    Scratch scratch;
    std::vector<Argument> arguments;
    StepLogits logits;
    ChosenTokens chosen;
    Tensor next;                   // the chosen tokens on the device
    std::unique_ptr<Event> event;  // after them
  };
  // The stream of steps that follow each other.
  struct Lane {
    std::shared_ptr<Stream> stream;
  };
  void gather_tokens(std::span<const StepRequest> requests, Scratch& scratch,
                     StepTables& step) const;
  void add_tokens(const StepRequest& request, StepTokens& tokens) const;
  // What a parameter of the program holds.
  struct Input {
    enum class Kind : uint8_t {
      embedded,
      positions,
      tokens,
      table_rows,
      token_numbers,
      requested,
      bounds,
      past,
      slots,
      pages,
      cross_lengths
    };
    Kind kind = Kind::embedded;
    size_t group = 0;  // pages, cross_lengths
  };
  Input input_of(const std::string& name, const PackedProgram& packed) const;
  void find_places();
  void find_starts();
  void fill_inputs(Scratch& scratch, const StepTables& step, const CancelToken* cancel) const;
  void fill_table(Input input, const StepTables& step, Box& box) const;
  void fill_positions(const Value& parameter, const StepTokens& tokens, Box& input) const;
  // Outputs of tokens [begin, begin + count) of `all`.
  void slice_outputs(std::span<const Box> results, int64_t begin, int64_t count, int64_t all,
                     NamedTensors& outputs) const;

  std::string not_packed_reason_;
  std::vector<Input> inputs_;                      // per parameter
  std::vector<const CacheLayout::Place*> places_;  // per paged state of the plan
  std::vector<TensorView> memory_;                 // theirs, without pages
  bool starts_ = false;
  ElementType token_type_ = ElementType::i64;
  mutable ObjectPool<Scratch> idle_;
  mutable ObjectPool<StartedMemory> idle_started_;
  mutable ObjectPool<Lane> idle_lanes_;
};

}  // namespace lathe::llm
