// SPDX-License-Identifier: MIT
#include "targets/null/target.h"

#include <cstring>

namespace lathe {
namespace {

// Writes zeros; data-dependent dimensions become 0.
class ZeroKernel final : public EvaluationKernel {
 public:
  explicit ZeroKernel(const Instruction& instruction)
      : EvaluationKernel(instruction), name_(fmt::format("null.{}", instruction.op().name)) {}
  std::string_view name() const override { return name_; }

 private:
  void evaluate(Evaluation& c) const override {
    for (int i = 0; i < c.results(); ++i) {
      const Type& type = c.instruction().result(i)->type();
      if (!type.is_ranked()) {
        c.set_box(i, type.kind == Type::Kind::sequence
                         ? Box{std::make_shared<const std::vector<Box>>()}
                         : Box{Tensor(type.element, {0})});
        continue;
      }
      std::array<int64_t, kMaxRank> dims{};
      bool known = c.out(i).data != nullptr;
      if (!known) {
        for (size_t axis = 0; axis < type.dims->size(); ++axis) {
          dims[axis] = (*type.dims)[axis].constant().value_or(0);
        }
      }
      const TensorView& out =
          known ? c.out(i) : c.out(i, {dims.data(), static_cast<size_t>(type.rank())});
      if (out.type != ElementType::string && out.is_dense()) {
        std::memset(out.data, 0, static_cast<size_t>(bytes_for(out.type, out.count())));
      }
    }
  }

  std::string name_;
};

}  // namespace

std::string_view NullTarget::doc() const {
  return "compiles everything, kernels write zeros; tests compilation";
}

std::string NullTarget::supports(const Instruction& instruction) const {
  return instruction.op().expand == nullptr
             ? ""
             : fmt::format("{} is a composite", instruction.op().name);
}

KernelChoice NullTarget::select(const Instruction& instruction, Constants /*constants*/) const {
  KernelChoice reference = make_reference_kernel(instruction);
  if (reference.kernel == nullptr || instruction.op().structural != Structural::none) {
    return reference;
  }
  return {std::make_unique<ZeroKernel>(instruction), ""};
}

bool NullTarget::expands(const Instruction& instruction) const {
  return instruction.op().expand != nullptr;
}

}  // namespace lathe
