// SPDX-License-Identifier: MIT
// Checks that symbols are declared, and that data-dependent ones are defined once, before their
// uses.
#include "ir/verifier.h"

namespace lathe {

void Verifier::check_symbols() {
  for (const auto& module : program_.modules()) {
    if (implementations_.contains(module.get())) continue;
    for (const auto& instruction : module->instructions()) {
      for (const SymbolRef& symbol : instruction->found()) {
        if (++found_[symbol->name] == 2) {
          problem("symbol '{}' is defined a second time by {}", escape(symbol->name),
                  place(*instruction));
        }
      }
    }
  }
  for (const State& state : program_.states()) {
    check_type(state.type, {}, [&] { return fmt::format("state @{}", escape(state.name)); });
  }
  for (const auto& module : program_.modules()) {
    if (owners_[module.get()] == 0) check_scope(*module, {}, false);
  }
}

void Verifier::check_scope(const Module& module, Names defined, bool implements) {
  for (const auto& parameter : module.parameters()) {
    check_type(parameter->type(), defined, [&] {
      return fmt::format("parameter '%{}' of @{}", escape(parameter->name()), module.name());
    });
  }
  for (const auto& instruction : module.instructions()) {
    for (const Module* body : instruction->bodies()) check_scope(*body, defined, implements);
    const Module* meaning = instruction->implements();
    if (meaning != nullptr) check_scope(*meaning, defined, true);
    for (const SymbolRef& symbol : instruction->found()) {
      if (symbol->kind != SymbolKind::found) {
        problem("symbol '{}' is not data-dependent, but defined by {}", escape(symbol->name),
                place(*instruction));
      }
      defined.insert(symbol->name);
    }
    const Where where = [this, at = instruction.get()] { return place(*at); };
    for (const Value& result : instruction->results()) {
      check_type(result.type(), defined, where);
      if (!result.elements()) continue;
      for (const Dim& dim : *result.elements()) check_dim(dim, defined, where);
    }
  }
  for (const Guard& guard : module.guards()) {
    const Where where = [&] { return fmt::format("a condition of @{}", module.name()); };
    check_dim(guard.a, defined, where);
    check_dim(guard.b, defined, where);
  }
}

void Verifier::check_type(const Type& type, const Names& defined, const Where& where) {
  if (!type.is_tensor()) return check_type(*type.item, defined, where);
  if (!type.dims) return;
  for (const Dim& dim : *type.dims) check_dim(dim, defined, where);
}

void Verifier::check_dim(const Dim& dim, const Names& defined, const Where& where) {
  if (dim.is_constant()) return;
  std::vector<SymbolRef> symbols;
  dim.collect_symbols(symbols);
  for (const SymbolRef& symbol : symbols) {
    const SymbolRef declared = program_.find_symbol(symbol->name);
    if (declared == nullptr) {
      problem("symbol '{}' is not declared: {}", escape(symbol->name), where());
    } else if (declared->kind == SymbolKind::found && !defined.contains(symbol->name)) {
      problem("symbol '{}' is used before an instruction defines it: {}", escape(symbol->name),
              where());
    }
  }
}

}  // namespace lathe
