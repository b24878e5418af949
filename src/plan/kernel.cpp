// SPDX-License-Identifier: MIT
#include "plan/kernel.h"

namespace lathe {
namespace {

class LaunchEvaluation final : public Evaluation {
 public:
  LaunchEvaluation(const Instruction& instruction, const LaunchArgs& args) : host_(args.host) {
    instruction_ = &instruction;
    inputs_ = args.in;
    outputs_ = args.out;
    pool = args.pool;
  }
  using Evaluation::out;
  const TensorView& out(int i, std::span<const int64_t> dims) override {
    return host_->result(i, dims);
  }
  const Box& box(int i) const override { return host_->box(i); }
  void set_box(int i, Box box) override { host_->set_box(i, std::move(box)); }

 private:
  HostMemory* host_;
};

class ReferenceKernel final : public EvaluationKernel {
 public:
  ReferenceKernel(const Instruction& instruction, std::string_view target)
      : EvaluationKernel(instruction),
        prepared_(instruction),
        name_(fmt::format("{}.{}", target, instruction.op().name)),
        elementwise_(instruction.op().formula != nullptr) {}
  std::string_view name() const override { return name_; }
  // A formula reads an element before it writes that of the same index.
  bool may_overwrite(int /*operand*/) const override { return elementwise_; }

 private:
  void evaluate(Evaluation& c) const override { prepared_.run(c); }
  PreparedEvaluation prepared_;
  std::string name_;
  bool elementwise_;
};

}  // namespace

void EvaluationKernel::launch(const LaunchArgs& args) const {
  LaunchEvaluation c(instruction_, args);
  evaluate(c);
}

KernelChoice make_reference_kernel(const Instruction& instruction, std::string_view target) {
  const Op& op = instruction.op();
  if (op.structural == Structural::state_append || op.structural == Structural::state_replace) {
    return {make_state_kernel(instruction), ""};
  }
  if (op.formula == nullptr && op.eval == nullptr) {
    return {nullptr,
            fmt::format("{} is {}", op.name, op.expand != nullptr ? "a composite" : "structural")};
  }
  return {std::make_unique<ReferenceKernel>(instruction, target), ""};
}

}  // namespace lathe
