// SPDX-License-Identifier: MIT
#include "plan/kernel.h"

namespace lathe {
namespace {

class ReferenceKernel final : public Kernel {
 public:
  explicit ReferenceKernel(const Instruction& instruction)
      : prepared_(instruction), name_(fmt::format("ref.{}", instruction.op().name)) {}
  std::string_view name() const override { return name_; }
  void launch(Evaluation& c) const override { prepared_.run(c); }

 private:
  PreparedEvaluation prepared_;
  std::string name_;
};

}  // namespace

KernelChoice make_reference_kernel(const Instruction& instruction) {
  const Op& op = instruction.op();
  if (op.formula == nullptr && op.eval == nullptr) {
    return {nullptr,
            fmt::format("{} is {}", op.name, op.expand != nullptr ? "a composite" : "structural")};
  }
  return {std::make_unique<ReferenceKernel>(instruction), ""};
}

}  // namespace lathe
