// SPDX-License-Identifier: MIT
#include <algorithm>
#include <unordered_set>

#include "ir/infer.h"

namespace lathe {
namespace {

struct Known {
  Type type;
  std::optional<std::vector<Dim>> elements;
};

void collect_symbols(const Type& type, std::vector<SymbolRef>& out) {
  if (!type.is_tensor()) return collect_symbols(*type.item, out);
  if (!type.dims) return;
  for (const Dim& dim : *type.dims) dim.collect_symbols(out);
}

bool mentions(const Dim& dim, const std::string& symbol) {
  std::vector<SymbolRef> symbols;
  dim.collect_symbols(symbols);
  return std::any_of(symbols.begin(), symbols.end(),
                     [&](const SymbolRef& s) { return s->name == symbol; });
}

// Removes data-dependent symbols that more exact types no longer need, and guards on them.
// Inferring the users again adds guards on the dims that replaced them.
void drop_found(Instruction& instruction) {
  std::vector<SymbolRef> needed;
  for (const Value& result : instruction.results()) {
    collect_symbols(result.type(), needed);
    if (!result.elements()) continue;
    for (const Dim& dim : *result.elements()) dim.collect_symbols(needed);
  }
  const std::vector<SymbolRef> found = instruction.found();
  instruction.clear_found();
  for (const SymbolRef& symbol : found) {
    const bool is_needed = std::any_of(needed.begin(), needed.end(),
                                       [&](const SymbolRef& s) { return s->name == symbol->name; });
    if (is_needed) {
      instruction.add_found(symbol);
      continue;
    }
    for (const auto& module : instruction.module()->program().modules()) {
      std::erase_if(module->guards(), [&](const Guard& guard) {
        return mentions(guard.a, symbol->name) || mentions(guard.b, symbol->name);
      });
    }
    instruction.module()->program().remove_symbol(symbol->name);
  }
}

// Infers again; true if a result's type or elements changed.
bool infer_again(Instruction& instruction) {
  std::vector<Known> before;
  for (const Value& result : instruction.results()) {
    before.push_back({result.type(), result.elements()});
  }
  if (instruction.op().bind_bodies != nullptr) instruction.op().bind_bodies(instruction);
  infer(instruction);
  drop_found(instruction);
  for (const Value& result : instruction.results()) {
    const Known& known = before[static_cast<size_t>(result.index())];
    if (!(known.type == result.type()) || known.elements != result.elements()) return true;
  }
  return false;
}

// The instruction with this module as a body, or null.
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
