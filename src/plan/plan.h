// SPDX-License-Identifier: MIT
// The compiled program: a flat list of launches over slots per module. Immutable and shared.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ir/program.h"
#include "plan/device.h"
#include "plan/dim_program.h"
#include "plan/kernel.h"

namespace lathe {

struct Plan;
class Target;

using SlotId = int32_t;    // index into ModulePlan::slots; -1: none
using DimId = int32_t;     // index into Plan::dims
using SymbolId = int32_t;  // index into Plan::symbols

// Storage of a slot.
enum class SlotKind : uint8_t {
  input,    // the caller's tensor, read in place
  output,   // the caller's tensor or callback, written in place
  literal,  // constant, held by the plan
  arena,    // at an offset of the segment's arena
  late,     // separate memory, allocated when its instruction runs (data-dependent shape)
  view,     // another slot's memory with other shape and strides
  state,    // a version of a state
  box,      // a reference-counted object: sequence, optional, unknown rank, strings
};

// Where bytes lie.
enum class Space : uint8_t { host, device };

struct Slot {
  const Value* value = nullptr;
  SlotKind kind = SlotKind::arena;
  Space space = Space::host;
  ElementType type = ElementType::f32;
  std::vector<DimId> dims;  // empty for unranked boxes
  std::vector<int> layout;  // arena: order of the axes in memory; empty: as in `dims`
  bool ranked = true;
  int index = -1;  // input, output: position; literal: index into literals; state: state
  int first = 0;   // arena: first and last launch that use the memory
  int last = 0;
  int segment = 0;      // that computes the shape
  SlotId shares = -1;   // arena: lies in this slot's memory, which it overwrites
  bool written = true;  // arena: else it has a shape, but no memory
};

enum class LaunchKind : uint8_t {
  kernel,
  view,  // runs the kernel if the operand's strides prevent a view
  if_,
  loop,
  scan,
  late,  // operands of unknown rank: compiled for each combination of ranks on first use
  state_read,
  state_append,
  state_replace,
  page_read,  // version 0 of a paged state
  copy,       // from another slot to a result
};

// Programs compiled for one instruction, one per combination of ranks.
struct RankSpecialisations {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Plan>> plans;
};

struct Launch {
  LaunchKind kind = LaunchKind::kernel;
  const Instruction* instruction = nullptr;  // null for copy
  std::unique_ptr<const Kernel> kernel;
  std::string reason;            // why it is not a kernel of the target; may be empty
  std::vector<SlotId> operands;  // -1: absent
  std::vector<SlotId> results;
  std::vector<int> bodies;  // indices into Plan::modules
  // Views: the elements of each operand as dims, if known on the host.
  std::vector<std::optional<std::vector<DimId>>> known;
  // Views: operand 0 lies in the caller's memory, in a state or in separate memory, so that its
  // address may change while its shape stays.
  bool moves = false;
  int state = -1;                // index into Plan::stored; page_read: into Plan::paged
  bool defines_symbols = false;  // the host waits for data-dependent sizes
  bool on_stream = false;        // the kernel is enqueued on the device's stream
  bool records = false;          // an event after it: the host waits for it
  int waits = -1;                // the host first waits for the event of this launch
  std::unique_ptr<RankSpecialisations> late;
};

// A dim of a module's input: binds its symbol, or is compared with its expected value.
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

// Consecutive launches whose shapes are known before the first one.
struct Segment {
  int first = 0;
  int last = 0;                      // one past the end
  std::vector<DimId> dims;           // evaluated at the start
  std::vector<PlannedGuard> guards;  // checked at the start
  std::vector<SlotId> slots;         // placed or shaped at the start
  std::vector<SymbolId> symbols;     // of dims
  std::vector<SymbolId> capacities;  // symbols that determine the layout
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

// A symbol bound by no input: its value is the size of a state's axis, 0 while the state is empty.
struct StateDim {
  int state = 0;  // index into Plan::stored
  int axis = 0;
  SymbolId symbol = 0;
};

// A dim of a paged state, a symbol or a constant.
struct PageDim {
  int state = 0;  // index into Plan::paged
  int axis = 0;
  SymbolId symbol = -1;
  int64_t constant = 0;
};

struct PlannedDim {
  Dim dim;
  std::optional<int64_t> constant;
  std::vector<SymbolId> symbols;
};

// What the runtime keeps for the runs of a plan, shared by all sessions.
class PlanScratch {
 public:
  virtual ~PlanScratch() = default;
};

struct Plan {
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  // Compiles another program for the same target and options. First: it keeps the target, whose
  // device holds literals.
  std::function<std::shared_ptr<const Plan>(std::unique_ptr<Program>)> compile;
  std::unique_ptr<const Program> program;  // lowered; launches point into it
  std::unique_ptr<const Program> source;   // before passes, for separate symbols and verification
  std::vector<ModulePlan> modules;         // main first
  std::vector<PlannedDim> dims;
  DimProgram dim_program;
  std::vector<SymbolRef> symbols;
  std::vector<Tensor> literals;
  std::vector<StateDim> state_dims;
  // The program's states: those of sessions, and those that the caller binds to each run.
  std::vector<const State*> stored;
  std::vector<const State*> paged;
  std::vector<PageDim> page_dims;
  bool stateless() const { return stored.empty(); }
  // The device of the target; null: its kernels run on the host.
  const Device* device = nullptr;
  std::unique_ptr<const Kernel> copy;  // of tensors, in the device's or the host's memory

  std::string target;
  // The plan with one symbol per use of a dim_param, compiled when an assumption first fails.
  mutable std::mutex separate_mutex;
  mutable std::shared_ptr<const Plan> separate;
  mutable std::atomic<int> compilations{1};
  mutable std::once_flag scratch_made;
  mutable std::unique_ptr<PlanScratch> scratch;  // last: its frames use the plan
};

// What plans take from a target.
class KernelSource {
 public:
  virtual ~KernelSource() = default;
  // The preferred kernel of an instruction.
  virtual KernelChoice select(const Instruction& instruction, Constants constants) const = 0;
  virtual std::unique_ptr<const Kernel> dims_kernel(std::vector<DimId> dims) const {
    return make_dims_kernel(std::move(dims));
  }
  virtual std::unique_ptr<const Kernel> copy_kernel() const { return make_copy_kernel(); }
  // Null: the host.
  virtual const Device* device() const { return nullptr; }
};

// Plans a lowered and placed program, which must not contain composites. An instruction without a
// kernel is an Internal error with the reason.
std::shared_ptr<Plan> make_plan(std::unique_ptr<Program> program, const KernelSource& source);

}  // namespace lathe
