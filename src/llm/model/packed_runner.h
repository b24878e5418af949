// SPDX-License-Identifier: MIT
// Runs the rows of all sequences of a step as one, without rectangle or padding.
#pragma once

#include "llm/model/step_runner.h"

namespace lathe::llm {

class PackedRunner final : public StepRunner {
 public:
  PackedRunner(PackedProgram packed, const DecoderInterface& names, const RunnerOptions& options);

  bool packed() const override { return true; }
  const std::string& offender() const override { return offender_; }
  Tensor run(std::span<const StepRequest> requests, const CancelToken* cancel) const override;

 private:
  // What a step's sequences give, row by row.
  struct Rows {
    std::vector<int64_t> tokens;
    std::vector<int64_t> positions;
    std::vector<int64_t> table_rows;
    std::vector<int64_t> wanted;
    void add(int64_t token, int64_t position, int64_t table_row);
  };
  std::vector<Box> make_inputs(const Rows& rows) const;
  // Rows [begin, begin + count) of `all` of what may be asked for.
  void give_outputs(std::span<const Box> results, int64_t begin, int64_t count, int64_t all,
                    NamedTensors& given) const;

  std::string offender_;
  std::string positions_;
  std::string table_rows_;
};

}  // namespace lathe::llm
