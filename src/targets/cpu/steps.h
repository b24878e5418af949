// SPDX-License-Identifier: MIT
// The instructions of a region by a kernel each, over memory of the thread: for launches that
// generated code does not run.
#pragma once

#include <memory>
#include <vector>

#include "plan/kernel.h"
#include "targets/cpu/kernels/simd/isa.h"

namespace lathe::cpu {

class Steps {
 public:
  // Every value of the body has the shape of its result, which the last instruction makes.
  Steps(const Instruction& region, Isa isa);
  // Arguments: those of the region.
  void run(const LaunchArgs& args) const;

 private:
  struct Step {
    std::unique_ptr<const Kernel> kernel;
    std::vector<int> operands;  // of the region; behind these the results of steps; -1: absent
    ElementType type;
  };
  std::vector<Step> steps_;
};

}  // namespace lathe::cpu
