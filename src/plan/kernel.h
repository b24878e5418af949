// SPDX-License-Identifier: MIT
// The launch interface between plans and the targets' kernels.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ops/evaluation.h"

namespace lathe {

// A kernel made for one instruction. Immutable: one plan is run by many threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string_view name() const = 0;  // "ref.matmul"
  virtual void launch(Evaluation& c) const = 0;
};

// A kernel, or the reason why there is none.
struct KernelChoice {
  std::unique_ptr<const Kernel> kernel;
  std::string reason;
};

// The instruction's reference meaning; takes every instruction that is neither composite nor
// structural.
KernelChoice make_reference_kernel(const Instruction& instruction);

}  // namespace lathe
