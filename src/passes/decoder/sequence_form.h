// SPDX-License-Identifier: MIT
// What packed programs have beside their instructions: step tables as inputs, and paged states.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "passes/decoder/pack_sequences.h"

namespace lathe {

class SequenceForm {
 public:
  // Adds the inputs that are requested to main, and their names to `names`.
  SequenceForm(Program& program, StepTableNames& names) : program_(program), names_(names) {}

  Value* token_bounds();
  Value* past_lengths();
  Value* state_slots();
  Value* page_table();  // of all KV caches, until set_page_tables()
  Value* cross_table(const SequenceState& state);
  Value* cross_lengths(const SequenceState& state);

  // The latest version of a state, which is added to the program if it is new.
  Value* version(const SequenceState& state);
  // Makes earlier users of the versions that `updater` takes read those that it returns: one
  // instruction of a step updates a state, and all others read its result.
  void set_update(Instruction& updater);
  // Adds a page table and a number of pages for the KV caches of each further window.
  void set_page_tables(const std::vector<SequenceState>& states);

 private:
  Value* input(std::string& name, std::string_view hint, std::vector<Dim> dims);
  StepTableNames::Cross& cross(const SequenceState& state);
  Dim sequences();
  // A dim of another paged state that `alike` holds for, or a new symbol.
  template <class Alike>
  Dim dim_of_states(size_t axis, std::string_view hint, SymbolKind kind, Alike alike);
  Type type_of(const SequenceState& state);

  Program& program_;
  StepTableNames& names_;
  std::map<std::string, int> cross_groups_;  // of states that this object added
};

}  // namespace lathe
