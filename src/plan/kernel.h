// SPDX-License-Identifier: MIT
// The launch interface between plans and the targets' kernels.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/evaluation.h"

namespace lathe {

// Per operand its value, where that is constant when the plan is made; null elsewhere.
using Constants = std::span<const Tensor* const>;

// A kernel made for one instruction. Immutable: one plan is run by many threads.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string_view name() const = 0;  // "ref.matmul"
  virtual void launch(Evaluation& c) const = 0;
  // False: the constant operand's value was taken when the kernel was made, so that the plan need
  // not keep it.
  virtual bool reads(int /*operand*/) const { return true; }
  // How it computes, for `explain`: "avx512_vnni, 12.3 MiB packed".
  virtual std::string detail() const { return ""; }
};

// A kernel, or the reason why there is none; beside a kernel that stands in for a better one, why
// that could not be had.
struct KernelChoice {
  std::unique_ptr<const Kernel> kernel;
  std::string reason;
};

// The instruction's reference meaning; takes every instruction that is neither composite nor
// structural.
KernelChoice make_reference_kernel(const Instruction& instruction);

}  // namespace lathe
