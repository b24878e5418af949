// SPDX-License-Identifier: MIT
#include "passes/eliminate_dead_code.h"

#include <set>
#include <string>
#include <unordered_set>

#include "ir/op.h"
#include "ir/state_chain.h"

namespace lathe {
namespace {

using Names = std::set<std::string, std::less<>>;

void add_symbols(const Dim& dim, Names& out) {
  if (dim.is_constant()) return;
  std::vector<SymbolRef> symbols;
  dim.collect_symbols(symbols);
  for (const SymbolRef& symbol : symbols) out.insert(symbol->name);
}

void add_symbols(const Type& type, Names& out) {
  if (!type.is_tensor()) return add_symbols(*type.item, out);
  if (!type.dims) return;
  for (const Dim& dim : *type.dims) add_symbols(dim, out);
}

void add_symbols(const Instruction& instruction, Names& out) {
  for (const SymbolRef& symbol : instruction.found()) out.insert(symbol->name);
  for (const Value& result : instruction.results()) {
    add_symbols(result.type(), out);
    if (!result.elements()) continue;
    for (const Dim& dim : *result.elements()) add_symbols(dim, out);
  }
  for (const auto& [name, value] : instruction.attributes()) {
    if (const auto* dims = std::get_if<std::vector<Dim>>(&value)) {
      for (const Dim& dim : *dims) add_symbols(dim, out);
    } else if (const auto* type = std::get_if<Type>(&value)) {
      add_symbols(*type, out);
    }
  }
}

// Symbols of guards, parameters and states: always live.
Names fixed_symbols(const Program& program) {
  Names names;
  for (const auto& module : program.modules()) {
    for (const auto& parameter : module->parameters()) add_symbols(parameter->type(), names);
    for (const Guard& guard : module->guards()) {
      add_symbols(guard.a, names);
      add_symbols(guard.b, names);
    }
  }
  for (const State& state : program.states()) add_symbols(state.type, names);
  return names;
}

bool is_used(const Instruction& instruction, const Names& symbols) {
  // The last version is what a run commits.
  if (updates_state(instruction)) return true;
  for (const Value& result : instruction.results()) {
    if (!result.uses().empty()) return true;
  }
  for (const SymbolRef& symbol : instruction.found()) {
    if (symbols.contains(symbol->name)) return true;
  }
  return false;
}

// Visits instructions in reverse, so that users are erased before their operands. A symbol is
// defined before its uses, in the same module or an enclosing one: all uses are visited by then.
bool remove_instructions(Module& module, Names& symbols) {
  bool changed = false;
  for (auto at = module.instructions().end(); at != module.instructions().begin();) {
    Instruction& instruction = **--at;
    if (!is_used(instruction, symbols)) {
      ++at;
      module.erase(&instruction);
      changed = true;
      continue;
    }
    for (Module* body : instruction.bodies()) changed |= remove_instructions(*body, symbols);
    if (instruction.implements() != nullptr) {
      changed |= remove_instructions(*instruction.implements(), symbols);
    }
    add_symbols(instruction, symbols);
  }
  return changed;
}

void reach(Module& module, std::unordered_set<const Module*>& reached) {
  if (!reached.insert(&module).second) return;
  for (const auto& instruction : module.instructions()) {
    for (Module* body : instruction->bodies()) reach(*body, reached);
    if (instruction->implements() != nullptr) reach(*instruction->implements(), reached);
  }
}

bool remove_modules(Program& program) {
  std::unordered_set<const Module*> reached;
  reach(program.main(), reached);
  std::vector<Module*> unreached;
  for (const auto& module : program.modules()) {
    if (!reached.contains(module.get())) unreached.push_back(module.get());
  }
  for (Module* module : unreached) program.remove_module(module);
  return !unreached.empty();
}

bool remove_symbols(Program& program, const Names& mentioned) {
  std::vector<std::string> unused;
  for (const auto& [name, symbol] : program.symbols()) {
    if (!mentioned.contains(name)) unused.push_back(name);
  }
  for (const std::string& name : unused) program.remove_symbol(name);
  return !unused.empty();
}

bool eliminate(Program& program) {
  for (bool changed = false;; changed = true) {
    // Bodies of instructions erased in one round mention symbols until the next round.
    changed |= remove_modules(program);
    Names symbols = fixed_symbols(program);
    const bool removed = remove_instructions(program.main(), symbols);
    if (!removed) return remove_symbols(program, symbols) || changed;
  }
}

}  // namespace

const Pass eliminate_dead_code{
    .name = "eliminate_dead_code",
    .doc = "Removes instructions, modules and symbols that nothing uses.",
    .run = eliminate,
};

}  // namespace lathe
