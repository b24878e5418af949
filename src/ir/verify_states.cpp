// SPDX-License-Identifier: MIT
// Versions of a state form one chain: one read, then consecutive updates. Every other use of a
// version comes before the update to the next.
#include "ir/verifier.h"

namespace lathe {
namespace {

bool is_update(const Instruction& instruction) {
  return instruction.op().structural == Structural::state_append ||
         instruction.op().structural == Structural::state_replace;
}

bool is_version(const Instruction& instruction) {
  return is_update(instruction) || instruction.op().structural == Structural::state_read;
}

// Empty if the attribute is invalid, which check_record() reports.
std::string state_name(const Instruction& instruction) {
  const Attribute* state = find_attribute(instruction.attributes(), "state");
  const auto* name = state == nullptr ? nullptr : std::get_if<std::string>(state);
  return name == nullptr ? "" : *name;
}

}  // namespace

void Verifier::check_states() {
  std::map<std::string, int> reads;
  for (const auto& module : program_.modules()) {
    // An implemented module is a specification: state versions are its parameters.
    if (implementations_.contains(module.get())) continue;
    for (const auto& instruction : module->instructions()) {
      if (!is_version(*instruction)) continue;
      const std::string state = state_name(*instruction);
      if (module.get() != &program_.main()) {
        problem("a state is used in a body, where its order is undefined: {}", place(*instruction));
      } else if (is_update(*instruction)) {
        if (instruction->operands().empty() || instruction->operands()[0] == nullptr) continue;
        const Value* version = instruction->operands()[0];
        const Instruction* before = version->definition();
        if (before == nullptr || !is_version(*before) || state_name(*before) != state) {
          problem("'%{}' is not a version of the state '{}': {}", escape(version->name()),
                  escape(state), place(*instruction));
        }
      } else if (++reads[state] == 2) {
        problem("state '{}' is read a second time by {}", escape(state), place(*instruction));
      }
      check_version(*instruction);
    }
  }
}

void Verifier::check_version(const Instruction& definition) {
  const Value& version = *definition.result();
  const Instruction* update = nullptr;
  for (const Use& use : version.uses()) {
    if (use.user == nullptr || use.index != 0 || !is_update(*use.user)) continue;
    if (update != nullptr) {
      problem("two instructions update '%{}': {}, and {}", escape(version.name()), place(*update),
              place(*use.user));
    }
    update = use.user;
  }
  if (update == nullptr) return;
  std::unordered_set<const Instruction*> earlier;
  for (const auto& instruction : definition.module()->instructions()) {
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
