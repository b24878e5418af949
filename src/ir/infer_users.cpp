// SPDX-License-Identifier: MIT
#include <unordered_set>

#include "ir/infer.h"

namespace lathe {
namespace {

struct Known {
  Type type;
  std::optional<std::vector<Dim>> elements;
};

// Infers again; whether any result's type or elements came out different.
bool infer_again(Instruction& instruction) {
  std::vector<Known> before;
  for (const Value& result : instruction.results()) {
    before.push_back({result.type(), result.elements()});
  }
  if (instruction.op().bind_bodies != nullptr) instruction.op().bind_bodies(instruction);
  infer(instruction);
  for (const Value& result : instruction.results()) {
    const Known& known = before[static_cast<size_t>(result.index())];
    if (!(known.type == result.type()) || known.elements != result.elements()) return true;
  }
  return false;
}

// The instruction that has the module as a body, or null.
Instruction* owner_of(const Module& module) {
  for (const auto& other : module.program().modules()) {
    for (const auto& instruction : other->instructions()) {
      for (const Module* body : instruction->bodies()) {
        if (body == &module) return instruction.get();
      }
    }
  }
  return nullptr;
}

}  // namespace

void infer_users(Value& value) {
  Module& module = *value.module();
  std::unordered_set<const Instruction*> pending;
  bool reaches_results = false;
  const auto add_users = [&](const Value& changed) {
    for (const Use& use : changed.uses()) {
      if (use.user != nullptr) pending.insert(use.user);
      reaches_results |= use.user == nullptr;
    }
  };
  add_users(value);
  for (const auto& instruction : module.instructions()) {
    if (pending.empty()) break;
    if (pending.erase(instruction.get()) == 0 || !infer_again(*instruction)) continue;
    for (const Value& result : instruction->results()) add_users(result);
  }
  if (!reaches_results) return;
  Instruction* owner = owner_of(module);
  if (owner == nullptr || !infer_again(*owner)) return;
  for (int i = 0; i < static_cast<int>(owner->results().size()); ++i)
    infer_users(*owner->result(i));
}

}  // namespace lathe
