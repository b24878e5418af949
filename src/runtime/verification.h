// SPDX-License-Identifier: MIT
// Whether what the passes and a target made of a program still computes the same.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/difference.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {

// Inputs of one session: one list per step. Programs without states have one step.
struct VerificationCase {
  std::string name;  // for reports: "seed 1, batch = 2"
  std::vector<std::vector<Box>> steps;
};

struct VerificationOptions {
  CompileOptions compile{};
  SessionOptions session{};
  const CancelToken* cancel = nullptr;
  std::optional<Clock::time_point> deadline{};
  double tolerance = 0;  // relative; 0: by the element type
};

// One comparison of one value.
struct ValueReport {
  std::string name;
  std::string type;
  std::string where;  // case and step
  double error = 0;   // the worst met
  double limit = 0;
  std::string judged;   // by what, where not by element: "mean KL 1e-5, top-1 100 %"
  std::string problem;  // empty: none
};

struct StageReport {
  std::string name;        // "canonical", …, "ref, end to end"
  bool unchanged = false;  // the same program as the stage before
  std::vector<ValueReport> values;
  std::string bad_pass;  // the first pass after which results differ
  std::string problem;   // empty: none

  bool passed() const { return problem.empty(); }
};

struct VerificationReport {
  bool quantises = false;  // at run time: judged by distributions, and instruction by instruction
  int64_t cases = 0;
  std::vector<std::string> skipped;  // cases whose inputs the program itself refuses, and why
  std::vector<StageReport> stages;

  bool passed() const;
};

// Runs the program of every stage on `ref` against the imported one on the same inputs, then the
// compiled plan on its target. Where a stage differs, names the pass that is to blame. Rethrows
// what the imported program fails with if it refuses every case.
VerificationReport verify_program(const Program& imported, std::span<const VerificationCase> cases,
                                  const VerificationOptions& options);

// One value against what it should be; of a program that quantises, by element or, where that
// fails, as distributions.
ValueReport judge_value(const std::string& name, const Box& actual, const Box& expected,
                        double tolerance, bool quantises);

// Whether floats become integers of few bits while it runs, so that a difference in the last bit
// may grow to a whole step.
bool quantises_at_run_time(const Program& program);

}  // namespace lathe
