// SPDX-License-Identifier: MIT
#include "passes/decoder/sequence_form.h"

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ir/state_chain.h"
#include "ops/support/sequence_attention.h"
#include "passes/decoder/simplify_decoder.h"

namespace lathe {
namespace {

Instruction* find_read(const Module& main, const std::string& state) {
  for (const auto& instruction : main.instructions()) {
    if (instruction->op() == ops::state_read && state_name_of(instruction->result()) == state) {
      return instruction.get();
    }
  }
  return nullptr;
}

}  // namespace

Value* SequenceForm::input(std::string& name, std::string_view hint, std::vector<Dim> dims) {
  Module& main = program_.main();
  if (!name.empty()) return find_parameter(main, name);
  Value* added = main.add_parameter(Type::tensor(ElementType::i32, std::move(dims)), hint);
  name = added->name();
  return added;
}

// The symbol of another table's first axis, or a new one.
Dim SequenceForm::sequences() {
  const Module& main = program_.main();
  std::vector<std::string> tables = {names_.past_lengths, names_.state_slots};
  for (const auto& pages : names_.pages) tables.push_back(pages.table);
  for (const auto& cross : names_.cross) {
    tables.insert(tables.end(), {cross.table, cross.lengths});
  }
  for (const std::string& name : tables) {
    if (const Value* table = name.empty() ? nullptr : find_parameter(main, name)) {
      return table->type().dims->front();
    }
  }
  if (!names_.token_bounds.empty()) {
    return find_parameter(main, names_.token_bounds)->type().dims->front() - 1;
  }
  return program_.add_symbol("sequences", SymbolKind::bound, {});
}

Value* SequenceForm::token_bounds() {
  return input(names_.token_bounds, "token_bounds", {sequences() + 1});
}

Value* SequenceForm::past_lengths() {
  return input(names_.past_lengths, "past_lengths", {sequences()});
}

Value* SequenceForm::state_slots() {
  return input(names_.state_slots, "state_slots", {sequences(), 2});
}

Value* SequenceForm::page_table() {
  if (names_.pages.empty()) names_.pages.emplace_back();
  StepTableNames::Pages& pages = names_.pages.front();
  if (!pages.table.empty()) return input(pages.table, "", {});
  const Dim columns = program_.add_symbol("table_pages", SymbolKind::bound, {});
  return input(pages.table, "page_table", {sequences(), columns});
}

StepTableNames::Cross& SequenceForm::cross(const SequenceState& state) {
  const auto at = std::ranges::find(names_.cross, state.cross_group, &StepTableNames::Cross::group);
  if (at != names_.cross.end()) return *at;
  StepTableNames::Cross& added = names_.cross.emplace_back();
  added.group = state.cross_group;
  added.state = state.name;
  return added;
}

Value* SequenceForm::cross_table(const SequenceState& state) {
  StepTableNames::Cross& own = cross(state);
  if (!own.table.empty()) return input(own.table, "", {});
  const Dim columns = program_.add_symbol("cross_table_pages", SymbolKind::bound, {});
  return input(own.table, "cross_page_table", {sequences(), columns});
}

Value* SequenceForm::cross_lengths(const SequenceState& state) {
  return input(cross(state).lengths, "cross_lengths", {sequences()});
}

template <class Alike>
Dim SequenceForm::dim_of_states(size_t axis, std::string_view hint, SymbolKind kind, Alike alike) {
  for (const State& state : program_.states()) {
    if (state.paged && alike(state)) return (*state.type.dims)[axis];
  }
  return program_.add_symbol(hint, kind, {});
}

Type SequenceForm::type_of(const SequenceState& state) {
  const auto carries = [](const State& other) { return other.kind == StateKind::carry; };
  std::vector<Dim> dims;
  if (!state.grows && !state.cross) {
    dims.push_back(dim_of_states(0, "slots", SymbolKind::length, carries));
    for (const int64_t extent : state.extents) dims.emplace_back(extent);
    return Type::tensor(state.element, std::move(dims));
  }
  const size_t heads = state.cross ? 1 : 0;
  const auto holds_pages = [&](const State& other) { return !carries(other); };
  const auto of_group = [&](const State& other) {
    if (!state.cross) return holds_pages(other) && other.kind != StateKind::cross;
    return other.kind == StateKind::cross && cross_groups_[other.name] == state.cross_group;
  };
  dims.push_back(
      dim_of_states(0, state.cross ? "cross_pages" : "pages", SymbolKind::length, of_group));
  dims.emplace_back(state.extents[heads]);
  dims.push_back(dim_of_states(2, "page_length", SymbolKind::bound, holds_pages));
  dims.emplace_back(state.extents.back());
  return Type::tensor(state.element, std::move(dims));
}

Value* SequenceForm::version(const SequenceState& state) {
  Module& main = program_.main();
  if (program_.find_state(state.name) == nullptr) {
    if (state.cross) cross_groups_[state.name] = state.cross_group;
    State added;
    added.name = state.name;
    added.kind = state.kind();
    added.type = type_of(state);
    added.axis = state.grows ? 0 : -1;
    added.window = state.window;
    added.paged = true;
    added.input = state.past;
    added.output = state.present;
    program_.states().push_back(std::move(added));
  }
  Instruction* read = find_read(main, state.name);
  if (read == nullptr) {
    Builder builder(main,
                    main.instructions().empty() ? nullptr : main.instructions().front().get());
    read = builder.add(ops::state_read, {}, {{"state", state.name}});
  }
  return last_version(read->result());
}

void SequenceForm::set_update(Instruction& updater) {
  for (const StateUpdate& update : updater.op().updates) {
    Value* before = updater.operands()[static_cast<size_t>(update.operand)];
    program_.main().replace_uses(before, updater.result(update.result));
    updater.set_operand(update.operand, before);
  }
}

void SequenceForm::set_page_tables(const std::vector<SequenceState>& states) {
  struct Group {
    int64_t window = 0;
    std::string state;
    Value* table = nullptr;
    Dim pages;
  };
  std::vector<Group> groups;
  std::map<std::string, size_t, std::less<>> group_of;
  for (const SequenceState& state : states) {
    if (!state.grows) continue;
    const auto known = std::ranges::find(groups, state.window, &Group::window);
    group_of[state.name] = static_cast<size_t>(known - groups.begin());
    if (known == groups.end()) groups.push_back({state.window, state.name, nullptr, {}});
  }
  if (groups.empty()) return;
  groups[0].table = page_table();
  names_.pages[0].state = groups[0].state;
  for (size_t i = 1; i < groups.size(); ++i) {
    StepTableNames::Pages& pages = names_.pages.emplace_back();
    pages.state = groups[i].state;
    groups[i].table = input(pages.table, "page_table", *groups[0].table->type().dims);
    groups[i].pages = program_.add_symbol("pages", SymbolKind::length, {});
  }
  for (State& state : program_.states()) {
    const auto at = group_of.find(state.name);
    if (at == group_of.end()) continue;
    const Group& group = groups[at->second];
    state.kind = group.window > 0 ? StateKind::window : StateKind::append;
    state.window = group.window;
    if (at->second > 0) (*state.type.dims)[0] = group.pages;
  }
  for (const auto& instruction : program_.main().instructions()) {
    const bool appends = instruction->op() == ops::sequence_attention;
    if (!appends && instruction->op() != ops::cached_attention) continue;
    const SequenceAttentionOperands operands = sequence_attention_operands(appends);
    const Value* cache = instruction->operands()[static_cast<size_t>(operands.key_cache)];
    const auto at = group_of.find(state_name_of(cache));
    if (at != group_of.end()) instruction->set_operand(operands.table, groups[at->second].table);
  }
}

}  // namespace lathe
