// SPDX-License-Identifier: MIT
// Builds plans (plan.h).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lathe {

// State shared by the modules of one program during planning.
class Planner {
 public:
  Planner(Plan& plan, const SelectKernel& select);

  Plan& plan() const { return plan_; }
  const SelectKernel& select() const { return select_; }
  DimId dim_id(const Dim& dim);
  SymbolId symbol_id(const Symbol& symbol) const;
  bool knows(const std::set<SymbolId>& known, const Dim& dim) const;
  bool knows(const std::set<SymbolId>& known, const Type& type) const;
  // Plans a module and its bodies; `known`: symbols bound by the caller.
  int plan_module(const Module& module, std::set<SymbolId> known);

 private:
  Plan& plan_;
  const SelectKernel& select_;
  std::map<std::string, SymbolId, std::less<>> symbol_ids_;
  std::map<std::string, DimId> dim_ids_;
};

class ModulePlanner {
 public:
  ModulePlanner(Planner& planner, const Module& module, std::set<SymbolId> known, bool is_main);
  ModulePlan run();

 private:
  SlotId add_slot(const Value& value, SlotKind kind);
  void add_literal(const Value& value, Tensor tensor);
  void plan_inputs();
  void plan_state_dims();
  void plan_instruction(const Instruction& instruction);
  void plan_results_of(const Instruction& instruction, Launch& launch);
  void plan_deferred(const Instruction& instruction);
  void plan_results();
  void plan_guards();
  void plan_lifetimes();
  void open_segment();
  void close_segment();
  std::vector<const Tensor*> constants_of(const Launch& launch) const;
  LaunchKind kind_of(const Instruction& instruction) const;
  bool is_result(const Value& value) const;

  Planner& planner_;
  Plan& plan_;
  const Module& module_;
  std::set<SymbolId> known_;
  bool is_main_;
  ModulePlan out_;
  std::map<const Value*, SlotId> slots_;
  std::vector<std::set<SymbolId>> known_at_;  // per segment
};

}  // namespace lathe
