// SPDX-License-Identifier: MIT
// The reference target: every op's own meaning, plain and obviously right.
#include "targets/ref/target.h"

namespace lathe {

std::string_view RefTarget::doc() const {
  return "the reference: every op's own meaning on the CPU, the judge of all other targets";
}

KernelChoice RefTarget::select(const Instruction& instruction, Constants /*constants*/) const {
  return make_reference_kernel(instruction);
}

bool RefTarget::expands(const Instruction& instruction) const {
  return instruction.op().expand != nullptr;
}

std::unique_ptr<Queue> RefTarget::make_queue() const { return std::make_unique<InlineQueue>(); }

}  // namespace lathe
