// SPDX-License-Identifier: MIT
// Runs the rows of all sequences of a step as one, without rectangle or padding.
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
  // What a step's sequences give, row by row.
  struct Rows : TokenList {
    std::array<std::vector<int64_t>, 3> positions;  // along each axis
    std::vector<int64_t> numbers;                   // of the rows in their sequences
    std::vector<int64_t> table_rows;
    std::vector<int64_t> wanted;
    void clear();
  };
  // What a step needs beside the session, kept for the next one: a step of as many rows as the last
  // allocates nothing.
  struct Scratch {
    Rows rows;
    std::vector<std::unique_ptr<Rerun>> anew;  // of each request, where it must begin anew
    PackedStep::Tables tables;
    std::vector<Box> inputs;
    std::vector<Box> results;
  };
  void gather_rows(std::span<const StepRequest> requests, Scratch& scratch, PackedStep& step) const;
  void add_rows(const StepRequest& request, Rows& rows) const;
  void fill_inputs(Scratch& scratch, const CancelToken* cancel) const;
  void fill_positions(const Value& parameter, const Rows& rows, Box& input) const;
  // Rows [begin, begin + count) of `all` of what may be asked for.
  void give_outputs(std::span<const Box> results, int64_t begin, int64_t count, int64_t all,
                    NamedTensors& given) const;

  std::string not_packed_reason_;
  std::string positions_;
  std::string token_numbers_;
  std::string table_rows_;
  mutable ObjectPool<Scratch> idle_;
};

}  // namespace lathe::llm
