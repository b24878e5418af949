// SPDX-License-Identifier: MIT
// The launch interface of kernels.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/evaluation.h"
#include "plan/launch_args.h"

namespace lathe {

// The value of each operand that is constant at planning time; null for others.
using Constants = std::span<const Tensor* const>;

// The kernel of one instruction. Immutable: many threads run one plan.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual std::string_view name() const = 0;  // "ref.matmul"
  // Runs, on a device enqueues, the kernel.
  virtual void launch(const LaunchArgs& args) const = 0;
  // Scratch memory of a launch whose operands and results have at most these shapes. The views have
  // no data, and are dense only if those of every launch are; null: a result whose shape the launch
  // finds.
  virtual int64_t workspace_bytes(const LaunchArgs& /*most*/) const { return 0; }
  virtual bool uses_workspace() const { return false; }
  // Called for all launches of a run before the first one with new shapes, on devices: what takes
  // long may be prepared for all together. The views may lack data.
  virtual void expect(const LaunchArgs& /*args*/) const {}
  // True if the operand may lie in the result's memory where type, shape and strides are equal.
  virtual bool may_overwrite(int /*operand*/) const { return false; }
  // False if the kernel copied or packed the constant operand at creation: the plan may drop it.
  virtual bool reads(int /*operand*/) const { return true; }
  // False if the kernel leaves this result alone, which nothing uses: it gets no memory.
  virtual bool writes(int /*result*/) const { return true; }
  // Implementation details for `explain`: "avx512_vnni, 12.3 MiB packed".
  virtual std::string detail() const { return ""; }
};

// A kernel that sees a launch as an Evaluation of its instruction.
class EvaluationKernel : public Kernel {
 public:
  explicit EvaluationKernel(const Instruction& instruction) : instruction_(instruction) {}
  void launch(const LaunchArgs& args) const final;

 protected:
  virtual void evaluate(Evaluation& c) const = 0;

 private:
  const Instruction& instruction_;
};

// A kernel, or the reason for its absence. With a fallback kernel, why the preferred one was
// refused.
struct KernelChoice {
  std::unique_ptr<const Kernel> kernel;
  std::string reason;
};

// A kernel that evaluates the reference implementation. Refuses composites and control flow.
// `target`: the name of a target whose kernel is that implementation.
KernelChoice make_reference_kernel(const Instruction& instruction, std::string_view target = "ref");

// Writes the values of these dims to an i64 vector.
std::unique_ptr<const Kernel> make_dims_kernel(std::vector<int32_t> dims);
// Copies operand 0 to the result, any strides.
std::unique_ptr<const Kernel> make_copy_kernel();
// The update of state_append and state_replace: operands version, x and, where the sequences of an
// append state have different lengths, their lengths (i64, along axis 0).
std::unique_ptr<const Kernel> make_state_kernel(const Instruction& instruction);

}  // namespace lathe
