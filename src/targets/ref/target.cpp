// SPDX-License-Identifier: MIT
// The reference target: evaluates each op by its definition.
#include "targets/ref/target.h"

namespace lathe {

std::string_view RefTarget::doc() const {
  return "reference: evaluates each op by its definition; other targets are tested against it";
}

KernelChoice RefTarget::select(const Instruction& instruction, Constants /*constants*/) const {
  return make_reference_kernel(instruction);
}

bool RefTarget::expands(const Instruction& instruction) const {
  return instruction.op().expand != nullptr;
}

std::unique_ptr<Queue> RefTarget::make_queue() const { return std::make_unique<InlineQueue>(); }

}  // namespace lathe
