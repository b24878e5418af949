// SPDX-License-Identifier: MIT
// Versions of a state form one chain: one read, then consecutive updates. Every other use of a
// version comes before the update to the next. Sequence ops also take tensors that are no versions,
// and return copies.
#include <algorithm>

#include "ir/state_chain.h"
#include "ir/verifier.h"

namespace lathe {
namespace {

bool is_read(const Instruction& instruction) {
  return instruction.op().structural == Structural::state_read;
}

// Empty if the attribute is absent or invalid, which check_record() reports.
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
      const bool read = is_read(*instruction);
      if (!read && !updates_state(*instruction)) continue;
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
        const Value& version = *instruction->result(update.result);
        if (state_read_of(&version) != nullptr) check_version(version);
      }
    }
  }
}

void Verifier::check_updates(const Instruction& instruction) {
  for (const StateUpdate& update : instruction.op().updates) {
    const auto at = static_cast<size_t>(update.operand);
    if (at >= instruction.operands().size() || instruction.operands()[at] == nullptr) continue;
    const Value& version = *instruction.operands()[at];
    const Instruction* read = state_read_of(&version);
    const std::string state = state_name(instruction);
    if (read != nullptr && (state.empty() || state == state_name(*read))) continue;
    if (read == nullptr && instruction.op().structural == Structural::none) continue;
    problem("'%{}' is not a version of {}: {}", escape(version.name()),
            state.empty() ? "a state" : fmt::format("the state '{}'", escape(state)),
            place(instruction));
  }
}

const std::unordered_map<const Instruction*, size_t>& Verifier::order_of(const Module& module) {
  const auto [at, fresh] = orders_.try_emplace(&module);
  if (!fresh) return at->second;
  at->second.reserve(module.instructions().size());
  for (const auto& instruction : module.instructions()) {
    at->second.emplace(instruction.get(), at->second.size());
  }
  return at->second;
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
  const std::unordered_map<const Instruction*, size_t>& order = order_of(*version.module());
  const auto last = order.find(update);
  for (const Use& use : version.uses()) {
    const auto at = order.find(use.user);
    const bool earlier = at != order.end() && (last == order.end() || at->second < last->second);
    if (use.user == update || earlier) continue;
    problem("'%{}' is used {} after the update {}", escape(version.name()),
            use.user == nullptr ? "as a result" : "by " + place(*use.user), place(*update));
  }
}

}  // namespace lathe
