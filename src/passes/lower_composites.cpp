// SPDX-License-Identifier: MIT
#include "passes/lower_composites.h"

#include <set>

#include "ir/builder.h"
#include "ir/ops.h"

namespace lathe {
namespace {

// Expansions depend on ranks: a composite with an operand of unknown rank is kept.
bool has_known_ranks(const Instruction& instruction) {
  for (const Value* operand : instruction.operands()) {
    if (operand != nullptr && operand->type().is_tensor() && !operand->type().is_ranked()) {
      return false;
    }
  }
  return true;
}

bool lower(Module& module, const std::function<bool(const Instruction&)>& expands) {
  bool changed = false;
  for (bool again = true; again;) {
    again = false;
    for (auto at = module.instructions().begin(); at != module.instructions().end();) {
      Instruction* instruction = (at++)->get();
      if (instruction->op().expand == nullptr || !expands(*instruction) ||
          !has_known_ranks(*instruction)) {
        continue;
      }
      expand_instruction(instruction);
      again = changed = true;
    }
  }
  return changed;
}

// The bodies of regions that the target runs as they are.
std::set<const Module*> kept_bodies(const Program& program,
                                    const std::function<bool(const Instruction&)>& expands) {
  std::set<const Module*> kept;
  for (const auto& module : program.modules()) {
    for (const auto& instruction : module->instructions()) {
      if (instruction->op() == ops::region && !expands(*instruction)) {
        kept.insert(instruction->bodies()[0]);
      }
    }
  }
  return kept;
}

bool lower_all(Program& program, const std::function<bool(const Instruction&)>& expands) {
  const std::set<const Module*> kept = kept_bodies(program, expands);
  bool changed = false;
  // By index: expansions may add modules.
  for (size_t i = 0; i < program.modules().size(); ++i) {
    Module& module = *program.modules()[i];
    if (!kept.contains(&module)) changed |= lower(module, expands);
  }
  return changed;
}

}  // namespace

Pass lower_composites(std::function<bool(const Instruction&)> expands) {
  return {.name = "lower_composites",
          .doc = "Replaces composites without a kernel by their expansions.",
          .run = [expands = std::move(expands)](Program& program) {
            return lower_all(program, expands);
          }};
}

}  // namespace lathe
