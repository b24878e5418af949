// SPDX-License-Identifier: MIT
// A step and the choice of its tokens, enqueued on a device without waiting for it: the step after
// it can be enqueued before the host knows the tokens.
#pragma once

#include <span>

#include "llm/model/step_logits.h"
#include "llm/model/token_chooser.h"

namespace lathe::llm {

// Its sequences stay as they are until a commit; without one, the end discards the step. The end
// waits for the device.
class StartedStep {
 public:
  virtual ~StartedStep() = default;
  // The sequences have the step's tokens from here on. Before wait(), for a step that starts behind
  // this one; undo() takes that back after a failure.
  virtual void commit() = 0;
  virtual void undo() = 0;
  // Waits for the device; then the results are there.
  virtual ChosenTokens& wait() = 0;
  // After wait(): keeps the tokens of these requests, and discards the others.
  virtual void commit(const std::vector<bool>& kept) = 0;
  virtual StepLogits& logits() = 0;
};

}  // namespace lathe::llm
