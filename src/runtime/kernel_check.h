// SPDX-License-Identifier: MIT
// Each kernel of a target against the reference, on the inputs that it meets while a program runs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "targets/compile.h"

namespace lathe {

// What was found about the kernels of one name.
struct KernelReport {
  std::string kernel;  // "cpu.matmul"
  int64_t instructions = 0;
  int64_t launches = 0;
  double error = 0;      // the worst, relative to the largest element
  double limit = 0;      // its own
  std::string worst_at;  // the instruction
  std::string problem;   // empty: none
};

// Compiles programs such that every kernel that is not the reference's is compared, launch by
// launch. Results are the target's.
class KernelCheck {
 public:
  explicit KernelCheck(double tolerance) : tolerance_(tolerance) {}
  std::shared_ptr<const Plan> compile(std::unique_ptr<Program> program, CompileOptions options);
  std::vector<KernelReport> reports() const;

 private:
  class Checked;
  void record(const Kernel& kernel, const Instruction& instruction, double error, double limit,
              const std::string& problem);
  double tolerance_;
  mutable std::mutex mutex_;
  std::map<std::string, KernelReport> found_;
};

}  // namespace lathe
