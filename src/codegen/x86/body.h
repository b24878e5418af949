// SPDX-License-Identifier: MIT
// The straight-line body of a loop: a number of interleaved copies of a linear form, each for the
// next step of elements, in registers assigned in one pass. A value without a register lies in the
// frame; spilled is the one whose next use is furthest.
#pragma once

#include <functional>
#include <vector>

#include "codegen/x86/machine.h"

namespace lathe::codegen::x86 {

// Memory of the body, provided by the loops around it.
struct BodyMemory {
  std::function<Mem(int operand, int step)> elements;  // of that step of an iteration
  std::function<Mem(int operand)> operand_cell;        // of operands with one element per row
  std::function<Mem(int index)> invariant_cell;        // of values that a row has one of
  std::function<Mem(int scalar)> scalar_cell;          // of row scalars
  // Partial results of reduction `index` at the step's first column; may use rax.
  std::function<Mem(int index)> partial_results;
  std::function<Mem(int slot)> frame;  // 64 bytes
  int slots = 0;                       // of the frame
  int invariants = 0;                  // cells of such values
};

class Body {
 public:
  // `nodes`: of the kernel, as the machine rewrites them.
  Body(const KernelDescription& kernel, const std::vector<Node>& nodes, const Phase& phase,
       Machine& machine, ConstantPool& pool, const BodyMemory& memory);

  // Whether the phase loads the operand.
  bool loads(int operand) const;
  // Computes the values that depend on cells alone, once per row, into cells.
  void emit_invariants();
  // Copies that fit in the registers without spills.
  int best_unroll() const;
  // Steps first … first + copies - 1 of an iteration. False if the frame is too small.
  bool emit(int first, int copies, bool tail);

  // Registers of partial results, one for each reduction and each step of an iteration of
  // kPartialResults columns. Without them the partial results lie in memory.
  void hold_partial_results(bool hold);
  int partial_result(int reduction, int step) const;
  int steps() const { return kPartialResults / machine_.lanes(); }  // of such an iteration

 private:
  struct Value {
    int reg = -1;
    int slot = -1;
  };
  struct Bank {              // registers of one class
    std::vector<int> owner;  // index of the value; kFree
    bool masks = false;
  };
  static constexpr int kFree = -1, kScratch = -2;

  void find_invariants(const std::vector<bool>& reached);
  bool is_mask(NodeId id) const;
  bool is_cell(NodeId id) const;
  Mem cell(NodeId id) const;
  int next_use(NodeId id, int after) const;
  Value& value(NodeId id, int copy);
  void emit_load(NodeId id, int copy, bool tail);
  void emit_operation(NodeId id, int copy);
  void emit_stores(int copy, bool tail);
  void emit_reductions(int copy, bool tail);
  void emit_store(const Store& store, int copy, bool tail);
  int take(NodeId id, int at, const std::vector<int>& pinned);
  int ensure(NodeId id, int copy, int at, std::vector<int>& pinned);
  void release_after(NodeId id, int copy, int at);
  void release(NodeId id, int copy);

  const KernelDescription& kernel_;
  const Phase& phase_;
  const std::vector<Node>& nodes_;
  Machine& machine_;
  ConstantPool& pool_;
  const BodyMemory& memory_;
  std::vector<int> invariant_;          // of each node: the index of its cell; -1: none
  std::vector<std::vector<int>> uses_;  // of each node, as positions: nodes, then the end
  int first_ = 0, copies_ = 1;
  int held_ = 0;  // registers of partial results, the last ones
  std::vector<Value> values_;
  Bank vectors_, masks_;
  std::vector<int> free_slots_;
  bool overflow_ = false;
};

}  // namespace lathe::codegen::x86
