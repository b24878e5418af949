// SPDX-License-Identifier: MIT
#include "ir/obligations.h"

#include <algorithm>

#include "base/error.h"
#include "ir/op.h"
#include "ir/print.h"
#include "ir/state_chain.h"

namespace lathe {
namespace {

std::map<std::string, int> count_updates(const Program& program) {
  std::map<std::string, int> updates;
  for (const auto& instruction : program.main().instructions()) {
    for (const StateUpdate& update : instruction->op().updates) {
      const auto at = static_cast<size_t>(update.operand);
      if (at >= instruction->operands().size()) continue;
      const std::string state = state_name_of(instruction->operands()[at]);
      if (!state.empty()) ++updates[state];
    }
  }
  return updates;
}

// The caller's interface: names and element types. Passes may refine dims.
std::vector<std::string> interface_of(const Program& program) {
  std::vector<std::string> lines;
  for (const auto& parameter : program.main().parameters()) {
    lines.push_back(fmt::format("parameter '{}' {}", escape(parameter->name()),
                                to_string(parameter->type().element)));
  }
  for (const std::string& name : program.main().result_names()) {
    lines.push_back(fmt::format("result '{}'", escape(name)));
  }
  return lines;
}

bool is_kept(const Guard& guard, const Program& program) {
  const std::vector<Guard>& guards = program.main().guards();
  if (std::find(guards.begin(), guards.end(), guard) != guards.end()) return true;
  std::vector<SymbolRef> symbols;
  guard.a.collect_symbols(symbols);
  guard.b.collect_symbols(symbols);
  for (const SymbolRef& symbol : symbols) {
    if (program.find_symbol(symbol->name) == nullptr) return true;
  }
  switch (guard.relation) {
    case Guard::Relation::equal:
      return equal(guard.a, guard.b) == Ternary::yes;
    case Guard::Relation::less_equal:
      return less_equal(guard.a, guard.b) == Ternary::yes;
    case Guard::Relation::broadcast:
      return guard.a == guard.b || guard.a == Dim(1) || guard.b == Dim(1);
  }
  return false;
}

}  // namespace

Obligations::Obligations(const Program& program)
    : updates_(count_updates(program)), interface_(interface_of(program)) {
  for (const Guard& guard : program.main().guards()) {
    if (guard.kind == Guard::Kind::requirement) requirements_.push_back(guard);
  }
}

std::vector<std::string> Obligations::broken_by(const Program& program, bool may_change_interface,
                                                bool may_change_requirements) const {
  std::vector<std::string> broken;
  for (const Guard& guard : requirements_) {
    if (!may_change_requirements && !is_kept(guard, program))
      broken.push_back("lost: " + print(guard));
  }
  const std::map<std::string, int> updates = count_updates(program);
  for (const auto& [state, count] : updates_) {
    const auto at = updates.find(state);
    const int left = at == updates.end() ? 0 : at->second;
    if (left < count) {
      broken.push_back(
          fmt::format("lost: {} of {} updates of state '{}'", count - left, count, escape(state)));
    }
  }
  const std::vector<std::string> interface = interface_of(program);
  if (!may_change_interface && interface != interface_) {
    broken.push_back(fmt::format("changed the caller's interface: ({}), before ({})",
                                 fmt::join(interface, ", "), fmt::join(interface_, ", ")));
  }
  return broken;
}

}  // namespace lathe
