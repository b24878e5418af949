// SPDX-License-Identifier: MIT
// From an imported program to a plan.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ir/pass_runner.h"
#include "passes/place.h"
#include "passes/set_compute_type.h"
#include "plan/plan.h"
#include "targets/target.h"
#include "targets/tuning.h"

namespace lathe {

struct CompileOptions {
  std::shared_ptr<const Target> target{};  // null: ref
  Compute compute = Compute::as_model;     // of GEMMs with weights
  ThreadPool* pool = nullptr;              // packs weights; must live until compile() returns
  // Device: runs take and return plain tensors in the memory of the target's device.
  Boundary boundary = Boundary::host;
  PassOptions passes{};
  // Measured choices; null: those of a compiled file for this processor, else the cost model's.
  std::shared_ptr<Tuning> tuning{};
  // Receives every kernel choice and may replace it.
  std::function<KernelChoice(const Instruction&, KernelChoice)> watch_kernels{};
};

// Runs the passes up to and including stage `last`. The program's stage is the one reached.
std::vector<PassRecord> run_pipeline(Program& program, const CompileOptions& options,
                                     Stage last = Stage::lowered);

// The processor and instruction set whose measurements hold for a target's kernels.
std::string tuned_processor(const KernelSource& source);

// Runs the pipeline and makes the plan.
std::shared_ptr<const Plan> compile(std::unique_ptr<Program> program,
                                    const CompileOptions& options = {});

// A plan of the unchanged program for ref: expands composites and runs no other pass. Verification
// compares with it.
std::shared_ptr<const Plan> compile_as_written(std::unique_ptr<Program> program);

}  // namespace lathe
