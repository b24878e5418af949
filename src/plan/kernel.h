// SPDX-License-Identifier: MIT
// The launch interface of kernels.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/evaluation.h"

namespace lathe {

// The value of each operand that is constant at planning time; null for others.
using Constants = std::span<const Tensor* const>;

// The kernel of one instruction. Immutable: many threads run one plan.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string_view name() const = 0;  // "ref.matmul"
  virtual void launch(Evaluation& c) const = 0;
  // False if the kernel copied or packed the constant operand at creation: the plan may drop it.
  virtual bool reads(int /*operand*/) const { return true; }
  // Implementation details for `explain`: "avx512_vnni, 12.3 MiB packed".
  virtual std::string detail() const { return ""; }
};

// A kernel, or the reason for its absence. With a fallback kernel, why the preferred one was
// refused.
struct KernelChoice {
  std::unique_ptr<const Kernel> kernel;
  std::string reason;
};

// A kernel that evaluates the reference implementation. Refuses composite and structural
// instructions.
KernelChoice make_reference_kernel(const Instruction& instruction);

}  // namespace lathe
