// SPDX-License-Identifier: MIT
#include "targets/sim/target.h"

#include <algorithm>

#include "targets/sim/kernel.h"

namespace lathe {
namespace {

bool is_plain(const Value& value) {
  return value.type().is_tensor() && value.type().is_ranked() && !value.type().is_boxed();
}

// Ops are counted by name, so that the choice does not depend on the program.
bool is_every_third(const Instruction& instruction) {
  uint32_t sum = 0;
  for (const char letter : instruction.op().name) sum = sum * 31 + static_cast<uint8_t>(letter);
  return sum % 3 == 0;
}

}  // namespace

std::string_view SimTarget::doc() const {
  return mixed_ ? "sim without every third op, which runs on the host; tests copies"
                : "reference kernels on a simulated device; tests the executor";
}

std::string SimTarget::supports(const Instruction& instruction) const {
  const Op& op = instruction.op();
  if (op.structural != Structural::none) return "";
  if (op.formula == nullptr && op.eval == nullptr) return fmt::format("{} is a composite", op.name);
  for (const OperandSpec& operand : op.operands) {
    if (operand.any_kind) return fmt::format("'{}' may be no tensor", operand.name);
  }
  for (const Value* operand : instruction.operands()) {
    if (operand != nullptr && !is_plain(*operand)) {
      return fmt::format("'%{}' is not a plain tensor of known rank", operand->name());
    }
  }
  for (const Value& result : instruction.results()) {
    if (!is_plain(result)) {
      return fmt::format("'%{}' is not a plain tensor of known rank", result.name());
    }
  }
  if (!instruction.found().empty()) return "only the kernel finds the result's shape";
  if (mixed_ && is_every_third(instruction)) return "every third op is refused";
  return "";
}

KernelChoice SimTarget::select(const Instruction& instruction, Constants /*constants*/) const {
  KernelChoice choice = make_reference_kernel(instruction);
  if (choice.kernel == nullptr) return choice;
  return {sim::on_stream(device_, std::move(choice.kernel), instruction.op().on_host), ""};
}

bool SimTarget::expands(const Instruction& instruction) const {
  return instruction.op().expand != nullptr;
}

std::unique_ptr<const Kernel> SimTarget::dims_kernel(std::vector<DimId> dims) const {
  return sim::on_stream(device_, make_dims_kernel(std::move(dims)));
}

std::unique_ptr<const Kernel> SimTarget::copy_kernel() const {
  return sim::on_stream(device_, make_copy_kernel());
}

}  // namespace lathe
