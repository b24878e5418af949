// SPDX-License-Identifier: MIT
// One measured step of a language model.
#pragma once

#include "cli/explain_run.h"
#include "cli/language_model.h"

namespace lathe::cli {

// Runs a prompt, then steps of one token with their launches timed, and returns the fastest of
// those. The rows are those of the decoder's plan.
ExplainedRun explain_step(const LanguageModel& model, const std::vector<LaunchRow>& rows);

}  // namespace lathe::cli
