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
  std::string offender_;
  ElementType token_type_ = ElementType::i64;
  int position_rows_ = 0;  // 0: the program takes no positions
  ElementType position_type_ = ElementType::i64;
};

}  // namespace lathe::llm
