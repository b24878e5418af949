// SPDX-License-Identifier: MIT
// From an imported program to a plan.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "plan/plan.h"
#include "targets/target.h"

namespace lathe {

struct CompileOptions {
  std::shared_ptr<const Target> target;  // null: ref
};

// Runs the pipeline up to and including the passes of `last`; the program's stage says how far.
void run_pipeline(Program& program, const CompileOptions& options, Stage last = Stage::lowered);

// The whole way: pipeline and plan.
std::shared_ptr<const Plan> compile(std::unique_ptr<Program> program,
                                    const CompileOptions& options = {});

}  // namespace lathe
