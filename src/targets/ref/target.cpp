// SPDX-License-Identifier: MIT
// The reference target: evaluates each op by its definition.
#include "targets/ref/target.h"

namespace lathe {

std::string_view RefTarget::doc() const {
  return "reference: evaluates each op by its definition; other targets are tested against it";
}

std::string RefTarget::supports(const Instruction& instruction) const {
  const Op& op = instruction.op();
  const bool runs =
      op.structural != Structural::none || op.formula != nullptr || op.eval != nullptr;
  return runs ? "" : fmt::format("{} is a composite", op.name);
}

KernelChoice RefTarget::select(const Instruction& instruction, Constants /*constants*/) const {
  return make_reference_kernel(instruction);
}

bool RefTarget::expands(const Instruction& instruction) const {
  return instruction.op().expand != nullptr;
}

}  // namespace lathe
