// SPDX-License-Identifier: MIT
// The compiled program: per module a flat list of launches over slots. Immutable and shared.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/program.h"
#include "plan/kernel.h"
#include "plan/queue.h"

namespace lathe {

struct Plan;
class Target;

using SlotId = int32_t;    // index into ModulePlan::slots; -1: none
using DimId = int32_t;     // index into Plan::dims
using SymbolId = int32_t;  // index into Plan::symbols

// Where a slot's bytes are.
enum class SlotKind : uint8_t {
  input,    // the caller's tensor, read in place
  output,   // the caller's tensor or callback, written in place
  literal,  // constant, held by the plan
  arena,    // placed by the segment's layout
  late,     // memory of its own, sized when its instruction runs (found extents)
  view,     // another slot's memory under other extents and strides
  state,    // a version of a state
  box,      // a counted object: sequence, optional, unknown rank, strings
};

struct Slot {
  const Value* value = nullptr;
  SlotKind kind = SlotKind::arena;
  ElementType type = ElementType::f32;
  std::vector<DimId> dims;  // empty for unranked boxes
  bool ranked = true;
  int index = -1;  // input, output: position; literal: index into literals; state: state
  int first = 0;   // arena: launches during which the memory is needed
  int last = 0;
  int segment = 0;  // in which the extents become known
};

enum class LaunchKind : uint8_t {
  kernel,
  view,  // host only; falls back to the kernel where the operand's strides refuse
  dims,
  if_,
  loop,
  scan,
  late,  // operands of unknown rank: compiled for the ranks seen, at first run
  state_read,
  state_append,
  state_replace,
  copy,  // a result that already lies elsewhere
};

// Compiled programs of one instruction, one per combination of ranks seen.
struct LateSite {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Plan>> plans;
};

struct Launch {
  LaunchKind kind = LaunchKind::kernel;
  const Instruction* instruction = nullptr;  // null for copy
  std::unique_ptr<const Kernel> kernel;
  std::string reason;            // why it is not the target's own kernel; may be empty
  std::vector<SlotId> operands;  // -1: absent
  std::vector<SlotId> results;
  std::vector<int> bodies;  // module plans
  // Views: per operand the dims of its elements, where the host knows them.
  std::vector<std::optional<std::vector<DimId>>> known;
  std::vector<DimId> values;  // of `dims`
  int state = -1;
  bool defines_symbols = false;  // the host waits for it: extents are found
  std::unique_ptr<LateSite> late;
};

// A dim of a module's input: binds its symbol, or is checked against the value it must have.
struct InputDim {
  int input = 0;
  int axis = 0;
  DimId dim = 0;
  SymbolId binds = -1;
};

struct PlannedGuard {
  Guard guard;
  DimId a = 0;
  DimId b = 0;
};

// A stretch of launches whose extents are known before its first one.
struct Segment {
  int first = 0;
  int last = 0;                      // one past the end
  std::vector<DimId> dims;           // evaluated at the start
  std::vector<PlannedGuard> guards;  // checked at the start
  std::vector<SlotId> slots;         // placed or shaped at the start
  std::vector<SymbolId> capacities;  // symbols that decide the layout
};

struct ModulePlan {
  const Module* module = nullptr;
  std::vector<Slot> slots;
  std::vector<SlotId> inputs;   // per parameter
  std::vector<SlotId> results;  // per result
  std::vector<InputDim> input_dims;
  std::vector<Segment> segments;
  std::vector<Launch> launches;
};

// An extent that no input tells: the one that a state holds, 0 while it holds nothing.
struct StateDim {
  int state = 0;
  int axis = 0;
  SymbolId symbol = 0;
};

struct PlannedDim {
  Dim dim;
  std::optional<int64_t> constant;
  std::vector<std::pair<SymbolRef, SymbolId>> symbols;  // those that occur in it
};

struct Plan {
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  std::unique_ptr<const Program> program;  // as planned; launches point into it
  std::unique_ptr<const Program> source;   // as compiled from, for separate symbols and verify
  std::vector<ModulePlan> modules;         // main first
  std::vector<PlannedDim> dims;
  std::vector<SymbolRef> symbols;
  std::vector<Tensor> literals;
  std::vector<StateDim> state_dims;
  bool stateless() const { return program->states().empty(); }

  // Makes a plan of another program for the same target and options.
  std::function<std::shared_ptr<const Plan>(std::unique_ptr<Program>)> compile;
  std::function<std::unique_ptr<Queue>()> make_queue;
  std::string target;
  // The plan with one symbol per use of a dim_param, made when an assumption first fails.
  mutable std::mutex separate_mutex;
  mutable std::shared_ptr<const Plan> separate;
  mutable std::atomic<int> compilations{1};
};

// Kernels for instructions, in order of preference, with the reason where there is none.
using SelectKernel = std::function<KernelChoice(const Instruction&, Constants)>;

// Makes the plan of a lowered program. Composites must be gone; what has no kernel is an Internal
// error that carries the reason.
std::shared_ptr<Plan> make_plan(std::unique_ptr<Program> program, const SelectKernel& select);

}  // namespace lathe
