// SPDX-License-Identifier: MIT
#include "targets/cpu/target.h"

#include <algorithm>

#include "targets/cpu/kernel_table.h"

namespace lathe {
namespace {

const cpu::KernelEntry* find_entry(const Instruction& instruction) {
  const auto table = cpu::kernel_table();
  const auto at = std::find_if(table.begin(), table.end(), [&](const cpu::KernelEntry& entry) {
    return entry.op == instruction.op().name;
  });
  return at == table.end() ? nullptr : &*at;
}

std::string why_not(const cpu::KernelEntry& entry, const Instruction& instruction) {
  const std::optional<cpu::Isa> isa = cpu::best_isa();
  return isa ? entry.why_not(instruction, *isa) : "this processor does not support AVX2";
}

}  // namespace

std::string_view CpuTarget::doc() const {
  return "x86-64: kernels for the host's instruction set; other ops run on ref";
}

KernelChoice CpuTarget::select(const Instruction& instruction, Constants constants) const {
  const cpu::KernelEntry* entry = find_entry(instruction);
  KernelChoice choice;
  choice.reason = entry != nullptr ? why_not(*entry, instruction)
                                   : fmt::format("no CPU kernel for {}", instruction.op().name);
  if (entry != nullptr && choice.reason.empty()) {
    choice = entry->make(instruction, constants, *cpu::best_isa());
  }
  if (choice.kernel != nullptr) return choice;
  KernelChoice reference = make_reference_kernel(instruction);
  if (reference.kernel != nullptr) reference.reason = std::move(choice.reason);
  return reference;
}

bool CpuTarget::expands(const Instruction& instruction) const {
  if (instruction.op().expand == nullptr) return false;
  const cpu::KernelEntry* entry = find_entry(instruction);
  return entry == nullptr || !why_not(*entry, instruction).empty();
}

std::unique_ptr<Queue> CpuTarget::make_queue() const { return std::make_unique<InlineQueue>(); }

}  // namespace lathe
