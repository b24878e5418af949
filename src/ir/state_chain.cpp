// SPDX-License-Identifier: MIT
#include "ir/state_chain.h"

#include <algorithm>

#include "ir/op.h"

namespace lathe {

const Instruction* state_read_of(const Value* version) {
  while (version != nullptr && version->definition() != nullptr) {
    const Instruction& definition = *version->definition();
    if (definition.op().structural == Structural::state_read) return &definition;
    const auto& updates = definition.op().updates;
    const auto at = std::ranges::find(updates, version->index(), &StateUpdate::result);
    if (at == updates.end() || at->operand >= std::ssize(definition.operands())) return nullptr;
    version = definition.operands()[static_cast<size_t>(at->operand)];
  }
  return nullptr;
}

// An absent or invalid attribute is reported by the verifier.
std::string state_name_of(const Value* version) {
  const Instruction* read = state_read_of(version);
  const Attribute* state = read == nullptr ? nullptr : find_attribute(read->attributes(), "state");
  const auto* name = state == nullptr ? nullptr : std::get_if<std::string>(state);
  return name == nullptr ? "" : *name;
}

bool is_update(const Use& use) {
  return use.user != nullptr &&
         std::ranges::any_of(use.user->op().updates, [&](const StateUpdate& update) {
           return update.operand == use.index;
         });
}

bool updates_state(const Instruction& instruction) {
  const Op& op = instruction.op();
  if (op.structural != Structural::none) return !op.updates.empty();
  return std::ranges::any_of(op.updates, [&](const StateUpdate& update) {
    const auto at = static_cast<size_t>(update.operand);
    return at < instruction.operands().size() &&
           state_read_of(instruction.operands()[at]) != nullptr;
  });
}

Value* last_version(Value* version) {
  for (;;) {
    const auto update = std::ranges::find_if(version->uses(), is_update);
    if (update == version->uses().end()) return version;
    const auto& updates = update->user->op().updates;
    const auto at = std::ranges::find(updates, update->index, &StateUpdate::operand);
    version = update->user->result(at->result);
  }
}

}  // namespace lathe
