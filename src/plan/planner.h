// SPDX-License-Identifier: MIT
// Builds plans (plan.h); planner_*.cpp have the parts.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/literal_upload.h"
#include "plan/plan.h"

namespace lathe {

// State shared by the modules of one program during planning.
class Planner {
 public:
  Planner(Plan& plan, const KernelSource& source);

  Plan& plan() const { return plan_; }
  const KernelSource& source() const { return source_; }
  LiteralUpload& upload() { return upload_; }
  DimId dim_id(const Dim& dim);
  SymbolId symbol_id(const Symbol& symbol) const;
  bool knows(const std::set<SymbolId>& known, const Dim& dim) const;
  bool knows(const std::set<SymbolId>& known, const Type& type) const;
  // Plans a module and its bodies; `known`: symbols bound by the caller.
  int plan_module(const Module& module, std::set<SymbolId> known);

 private:
  Plan& plan_;
  const KernelSource& source_;
  LiteralUpload upload_;  // ends before the literals, should planning fail
  std::map<std::string, SymbolId, std::less<>> symbol_ids_;
  std::map<std::string, DimId> dim_ids_;
};

class ModulePlanner {
 public:
  ModulePlanner(Planner& planner, const Module& module, std::set<SymbolId> known, bool is_main);
  ModulePlan run();

 private:
  SlotId slot_of(const Value& value);  // evaluates a deferred value at its first use
  SlotId add_slot(const Value& value, SlotKind kind);
  void add_literal(const Value& value, Tensor tensor);
  void plan_literal(const Instruction& instruction);
  bool is_transposed_on_device(const Instruction& instruction) const;
  bool is_joined_on_device(const Instruction& instruction) const;
  void check_literals_fit() const;
  bool copies_literals(const Instruction& instruction) const;
  void upload_literals();
  void add_device_literal(const Value& value, const Value& source);
  void plan_inputs();
  void plan_page_dims();
  void plan_state_dims();
  void plan_instruction(const Instruction& instruction);
  void plan_state(const Instruction& instruction, Launch& launch) const;
  void select_kernel(const Instruction& instruction, Launch& launch);
  void plan_known(const Instruction& instruction, Launch& launch);
  void plan_results_of(const Instruction& instruction, Launch& launch);
  void plan_deferred(const Instruction& instruction);
  // True if kernels pack all results from what they are made of.
  bool packed_from_source(const Instruction& instruction) const;
  void drop_if_taken(const Value& value);
  void plan_results();
  void plan_guards();
  void plan_segment(size_t index);
  void add_capacities(const Slot& slot, size_t segment, std::set<SymbolId>& capacities) const;
  size_t current_segment() const;
  std::set<DimId>& dims_at(size_t segment);  // evaluated at its start
  void plan_lifetimes();
  void plan_in_place();
  SlotId overwritten_operand(const Launch& launch, int at) const;
  SlotId root_of(SlotId slot) const;
  void plan_waits();
  void keep_until_waited();
  bool runs_on_device(const Instruction& instruction) const;
  Space space_of(const Instruction& instruction, const Launch& launch) const;
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
  std::set<SlotId> reads_;                     // literals that a kernel reads
  std::map<SlotId, int> on_device_;            // literals by those that they are copies of
  std::set<SlotId> unevaluated_;               // deferred values that kernels do not need
  std::map<SlotId, int64_t> taken_;            // uses of a deferred value that are planned
  std::map<SlotId, SlotId> roots_;             // of views
  std::vector<std::set<SymbolId>> known_at_;   // per segment
  std::vector<std::set<DimId>> segment_dims_;  // per segment
};

// Releases literals that every kernel using them has copied or packed; requests the others of
// compiled files.
void release_packed_literals(Plan& plan);

}  // namespace lathe
