// SPDX-License-Identifier: MIT
// Verifies that passes and a target preserve the results of a program.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/difference.h"
#include "runtime/session.h"
#include "targets/compile.h"

namespace lathe {

// Inputs of one session, one list per step. Stateless programs have one step.
struct VerificationCase {
  std::string name;  // for reports: "seed 1, batch = 2"
  std::vector<std::vector<Box>> steps;
  std::vector<double> roundings{};  // always permitted: max|a - b| of each result
};

struct VerificationOptions {
  CompileOptions compile{};
  SessionOptions session{};
  const CancelToken* cancel = nullptr;
  std::optional<Clock::time_point> deadline{};
  double tolerance = 0;  // relative; 0: by the element type
};

// The comparison of one value.
struct ValueReport {
  std::string name;
  std::string type;
  std::string where;  // case and step
  double error = 0;   // largest
  double limit = 0;
  std::string judged;   // metric, if not per element: "mean KL 1e-5, top-1 100 %"
  std::string problem;  // empty: none
};

struct StageReport {
  std::string name;        // "canonical", …, "ref, end to end"
  bool unchanged = false;  // program equal to that of the previous stage
  std::vector<ValueReport> values;
  std::string bad_pass;  // the first pass after which results differ
  std::string problem;   // empty: none

  bool passed() const { return problem.empty(); }
};

struct KernelReport;
// Adds a value for each kernel, and the first problem.
void add_kernels(std::span<const KernelReport> kernels, StageReport& report);

struct VerificationReport {
  bool quantises = false;  // at run time: compared as distributions and in lockstep
  int64_t cases = 0;
  std::vector<std::string> skipped;  // cases that the imported program refuses, and why
  std::vector<StageReport> stages;

  bool passed() const;
};

// Compares the program of every stage, run on `ref`, with the imported one on the same inputs, then
// the compiled plan on its target. If a stage differs, finds the first bad pass. Rethrows the error
// of the imported program if it refuses all cases.
VerificationReport verify_program(const Program& imported, std::span<const VerificationCase> cases,
                                  const VerificationOptions& options);

// The most that results of programs that quantise may differ as distributions.
struct DistributionLimits {
  double kl = 0.02;
  double noise = 0.25;  // softmax ignores small logits
};

// Compares a value with the expected one: per element, or, if that fails in a program that
// quantises, as distributions.
ValueReport judge_value(const std::string& name, const Box& actual, const Box& expected,
                        const Tolerance& tolerance, bool quantises,
                        const DistributionLimits& limits = {});

// True if the program rounds floats to integers of at most 8 bits, so that a difference in the last
// bit may become a whole step.
bool quantises_at_run_time(const Program& program);

}  // namespace lathe
