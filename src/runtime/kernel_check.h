// SPDX-License-Identifier: MIT
// Compares each kernel of a target with the reference, on its inputs during a run of a program.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "targets/compile.h"

namespace lathe {

// Results for all kernels of one name.
struct KernelReport {
  std::string kernel;  // "cpu.matmul"
  int64_t instructions = 0;
  int64_t launches = 0;
  double error = 0;      // largest, relative to the largest element
  double limit = 0;      // permitted error at `worst_at`
  std::string worst_at;  // instruction with the largest error
  std::string problem;   // empty: none
};

// Compiles programs whose launches compare every kernel of the target with the reference. Results
// are the target's.
class KernelCheck {
 public:
  explicit KernelCheck(double tolerance) : tolerance_(tolerance) {}
  std::shared_ptr<const Plan> compile(std::unique_ptr<Program> program, CompileOptions options);
  // Makes later compilations with these options compare every kernel. The check must outlive their
  // plans. On a device, runs must be profiled: recorded launches do not compare.
  void watch(CompileOptions& options);
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
