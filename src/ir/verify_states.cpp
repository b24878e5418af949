// SPDX-License-Identifier: MIT
// Versions of a state form one chain: one read, then consecutive updates. Every other use of a
// version comes before the update to the next.
#include <algorithm>

#include "ir/verifier.h"

namespace lathe {
namespace {

bool is_read(const Instruction& instruction) {
  return instruction.op().structural == Structural::state_read;
}

// True if `user` replaces its operand `index` by the next version.
bool is_update(const Use& use) {
  return use.user != nullptr &&
         std::ranges::any_of(use.user->op().updates, [&](const StateUpdate& update) {
           return update.operand == use.index;
         });
}

// Empty if the attribute is absent or invalid, which check_record() reports.
std::string state_name(const Instruction& instruction) {
  const Attribute* state = find_attribute(instruction.attributes(), "state");
  const auto* name = state == nullptr ? nullptr : std::get_if<std::string>(state);
  return name == nullptr ? "" : *name;
}

// The instruction that reads the state of this version; null if the value is no version.
const Instruction* read_of(const Value* value) {
  while (value != nullptr && value->definition() != nullptr) {
    const Instruction& definition = *value->definition();
    if (is_read(definition)) return &definition;
    const auto& updates = definition.op().updates;
    const auto at = std::ranges::find(updates, value->index(), &StateUpdate::result);
    if (at == updates.end() || at->operand >= std::ssize(definition.operands())) return nullptr;
    value = definition.operands()[static_cast<size_t>(at->operand)];
  }
  return nullptr;
}

}  // namespace

void Verifier::check_states() {
  std::map<std::string, int> reads;
  for (const auto& module : program_.modules()) {
    // An implemented module is a specification: state versions are its parameters.
    if (implementations_.contains(module.get())) continue;
    for (const auto& instruction : module->instructions()) {
      const bool read = is_read(*instruction);
      if (!read && instruction->op().updates.empty()) continue;
      if (module.get() != &program_.main()) {
        problem("a state is used in a body, where its order is undefined: {}", place(*instruction));
      } else if (read && ++reads[state_name(*instruction)] == 2) {
        problem("state '{}' is read a second time by {}", escape(state_name(*instruction)),
                place(*instruction));
      } else {
        check_updates(*instruction);
      }
      if (read) check_version(*instruction->result());
      for (const StateUpdate& update : instruction->op().updates) {
        check_version(*instruction->result(update.result));
      }
    }
  }
}

void Verifier::check_updates(const Instruction& instruction) {
  for (const StateUpdate& update : instruction.op().updates) {
    const auto at = static_cast<size_t>(update.operand);
    if (at >= instruction.operands().size() || instruction.operands()[at] == nullptr) continue;
    const Value& version = *instruction.operands()[at];
    const Instruction* read = read_of(&version);
    const std::string state = state_name(instruction);
    if (read != nullptr && (state.empty() || state == state_name(*read))) continue;
    problem("'%{}' is not a version of {}: {}", escape(version.name()),
            state.empty() ? "a state" : fmt::format("the state '{}'", escape(state)),
            place(instruction));
  }
}

void Verifier::check_version(const Value& version) {
  const Instruction* update = nullptr;
  for (const Use& use : version.uses()) {
    if (!is_update(use)) continue;
    if (update != nullptr) {
      problem("two instructions update '%{}': {}, and {}", escape(version.name()), place(*update),
              place(*use.user));
    }
    update = use.user;
  }
  if (update == nullptr) return;
  std::unordered_set<const Instruction*> earlier;
  for (const auto& instruction : version.module()->instructions()) {
    if (instruction.get() == update) break;
    earlier.insert(instruction.get());
  }
  for (const Use& use : version.uses()) {
    if (use.user == update || earlier.contains(use.user)) continue;
    problem("'%{}' is used {} after the update {}", escape(version.name()),
            use.user == nullptr ? "as a result" : "by " + place(*use.user), place(*update));
  }
}

}  // namespace lathe
