// SPDX-License-Identifier: MIT
// From an imported program to a plan.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ir/pass_runner.h"
#include "passes/set_compute_type.h"
#include "plan/plan.h"
#include "targets/target.h"

namespace lathe {

struct CompileOptions {
  std::shared_ptr<const Target> target{};  // null: ref
  Compute compute = Compute::as_model;     // of weight products
  ThreadPool* pool = nullptr;              // helps to pack weights; must live until then
  PassOptions passes{};
  // Sees every choice of a kernel and may put another in its place.
  std::function<KernelChoice(const Instruction&, KernelChoice)> watch_kernels{};
};

// Runs the passes up to and including those of `last`; the program's stage says how far it got.
std::vector<PassRecord> run_pipeline(Program& program, const CompileOptions& options,
                                     Stage last = Stage::lowered);

// The whole way: pipeline and plan.
std::shared_ptr<const Plan> compile(std::unique_ptr<Program> program,
                                    const CompileOptions& options = {});

// A plan of the program as it stands, for ref: composites are expanded, no other pass runs. What
// verification compares with.
std::shared_ptr<const Plan> compile_as_written(std::unique_ptr<Program> program);

}  // namespace lathe
