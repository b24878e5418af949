// SPDX-License-Identifier: MIT
// Targets: which instructions they take, their pipeline, their kernels, their queue.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace lathe {

class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view doc() const = 0;
  // A kernel for a lowered instruction, or the reason why not.
  virtual KernelChoice select(const Instruction& instruction, Constants constants) const = 0;
  // Whether lowering expands this composite. A target with a kernel for it says false.
  virtual bool expands(const Instruction& instruction) const = 0;
  virtual std::unique_ptr<Queue> make_queue() const = 0;
  // False: results are not the program's, so there is nothing to compare.
  virtual bool computes() const { return true; }
};

// "ref", "cpu", "null", "null:async"; InvalidArgument with the nearest name otherwise.
std::shared_ptr<const Target> find_target(std::string_view name);
std::vector<std::string_view> target_names();

}  // namespace lathe
