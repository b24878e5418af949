// SPDX-License-Identifier: MIT
// Slots and launches of a lowered program.
#include "plan/planner.h"

#include <algorithm>

#include "base/interrupt.h"
#include "ir/literal.h"
#include "ir/ops.h"
#include "ops/support/state.h"
#include "passes/place.h"
#include "plan/packing_source.h"
#include "tensor/mapped.h"

namespace lathe {

Planner::Planner(Plan& plan, const KernelSource& source) : plan_(plan), source_(source) {
  for (const auto& [name, symbol] : plan.program->symbols()) {
    symbol_ids_.emplace(name, static_cast<SymbolId>(plan.symbols.size()));
    plan.symbols.push_back(symbol);
  }
}

DimId Planner::dim_id(const Dim& dim) {
  const auto [at, added] = dim_ids_.emplace(dim.to_string(), static_cast<DimId>(plan_.dims.size()));
  if (!added) return at->second;
  PlannedDim planned;
  planned.dim = dim;
  planned.constant = dim.constant();
  std::vector<SymbolRef> symbols;
  dim.collect_symbols(symbols);
  for (const SymbolRef& symbol : symbols) planned.symbols.push_back(symbol_id(*symbol));
  plan_.dims.push_back(std::move(planned));
  return at->second;
}

SymbolId Planner::symbol_id(const Symbol& symbol) const {
  const auto at = symbol_ids_.find(symbol.name);
  check(at != symbol_ids_.end(), ErrorKind::internal, "symbol '{}' is not in the program",
        symbol.name);
  return at->second;
}

bool Planner::knows(const std::set<SymbolId>& known, const Dim& dim) const {
  std::vector<SymbolRef> symbols;
  dim.collect_symbols(symbols);
  return std::all_of(symbols.begin(), symbols.end(),
                     [&](const SymbolRef& symbol) { return known.contains(symbol_id(*symbol)); });
}

bool Planner::knows(const std::set<SymbolId>& known, const Type& type) const {
  return type.is_ranked() && std::all_of(type.dims->begin(), type.dims->end(),
                                         [&](const Dim& dim) { return knows(known, dim); });
}

int Planner::plan_module(const Module& module, std::set<SymbolId> known) {
  const int index = static_cast<int>(plan_.modules.size());
  plan_.modules.emplace_back();
  ModulePlanner planner(*this, module, std::move(known), index == 0);
  ModulePlan planned = planner.run();
  plan_.modules[static_cast<size_t>(index)] = std::move(planned);
  return index;
}

ModulePlanner::ModulePlanner(Planner& planner, const Module& module, std::set<SymbolId> known,
                             bool is_main)
    : planner_(planner),
      plan_(planner.plan()),
      module_(module),
      known_(std::move(known)),
      is_main_(is_main) {
  out_.module = &module;
}

ModulePlan ModulePlanner::run() {
  plan_inputs();
  if (is_main_) plan_state_dims();
  if (is_main_ && plan_.device != nullptr) check_literals_fit();
  open_segment();
  if (plan_.device != nullptr) upload_literals();
  for (const auto& instruction : module_.instructions()) {
    check_interrupt();
    if (instruction->deferred()) continue;  // planned before its first use
    if (instruction->op().structural == Structural::literal) {
      plan_literal(*instruction);
    } else {
      plan_instruction(*instruction);
    }
  }
  plan_results();
  close_segment();
  plan_guards();
  plan_lifetimes();
  if (plan_.device != nullptr) plan_waits();
  plan_in_place();
  return std::move(out_);
}

SlotId ModulePlanner::slot_of(const Value& value) {
  const auto known = slots_.find(&value);
  if (known != slots_.end()) return known->second;
  const Instruction* definition = value.definition();
  check(definition != nullptr && definition->deferred(), ErrorKind::internal,
        "'%{}' is used before it is planned", value.name());
  plan_deferred(*definition);
  return slots_.at(&value);
}

SlotId ModulePlanner::add_slot(const Value& value, SlotKind kind) {
  Slot slot;
  slot.value = &value;
  slot.kind = value.type().is_boxed() ? SlotKind::box : kind;
  slot.type = value.type().element;
  slot.ranked = value.type().is_ranked();
  slot.segment = std::max(static_cast<int>(out_.segments.size()) - 1, 0);
  if (slot.ranked) {
    for (const Dim& dim : *value.type().dims) slot.dims.push_back(planner_.dim_id(dim));
    if (slot.kind == SlotKind::arena) slot.layout = value.layout();
  }
  out_.slots.push_back(std::move(slot));
  const auto id = static_cast<SlotId>(out_.slots.size() - 1);
  slots_[&value] = id;
  return id;
}

LaunchKind ModulePlanner::kind_of(const Instruction& instruction) const {
  switch (instruction.op().structural) {
    case Structural::dims:
      return LaunchKind::kernel;
    case Structural::if_:
      return LaunchKind::if_;
    case Structural::loop:
      return LaunchKind::loop;
    case Structural::scan:
      return LaunchKind::scan;
    case Structural::state_read:
      return LaunchKind::state_read;
    case Structural::state_append:
      return LaunchKind::state_append;
    case Structural::state_replace:
      return LaunchKind::state_replace;
    default:
      break;
  }
  if ((instruction.op().traits & kTakesUnranked) == 0) {
    for (const Value* operand : instruction.operands()) {
      const bool late =
          operand != nullptr && operand->type().is_tensor() && !operand->type().is_ranked();
      if (late) return LaunchKind::late;
    }
  }
  const Value& result = *instruction.result();
  const bool plain = !result.type().is_boxed() && instruction.operands()[0] != nullptr &&
                     !instruction.operands()[0]->type().is_boxed();
  if (instruction.op().view != nullptr && plain && !is_result(result)) return LaunchKind::view;
  return LaunchKind::kernel;
}

bool ModulePlanner::is_result(const Value& value) const {
  return std::any_of(value.uses().begin(), value.uses().end(),
                     [](const Use& use) { return use.user == nullptr; });
}

void ModulePlanner::plan_instruction(const Instruction& instruction) {
  Launch launch;
  launch.instruction = &instruction;
  const bool may_view =
      !instruction.operands().empty() || instruction.op().structural != Structural::none;
  launch.kind = may_view ? kind_of(instruction) : LaunchKind::kernel;
  for (const Value* operand : instruction.operands()) {
    launch.operands.push_back(operand == nullptr ? -1 : slot_of(*operand));
  }
  if (instruction.op().structural != Structural::none) {
    for (const Module* body : instruction.bodies()) {
      launch.bodies.push_back(planner_.plan_module(*body, known_));
    }
  }
  select_kernel(instruction, launch);
  if (launch.kind == LaunchKind::view) plan_known(instruction, launch);
  if (launch.kind == LaunchKind::late) launch.late = std::make_unique<RankSpecialisations>();
  if (instruction.op().structural >= Structural::state_read) plan_state(instruction, launch);
  plan_results_of(instruction, launch);
  const bool defines = launch.defines_symbols;
  for (size_t i = 0; i < launch.operands.size(); ++i) {
    const bool taken =
        launch.kind == LaunchKind::kernel && !launch.kernel->reads(static_cast<int>(i));
    if (launch.operands[i] < 0) continue;
    if (!taken) reads_.insert(launch.operands[i]);
    drop_if_taken(*instruction.operands()[i]);
  }
  out_.launches.push_back(std::move(launch));
  if (defines) {
    for (const SymbolRef& symbol : instruction.found()) {
      known_.insert(planner_.symbol_id(*symbol));
    }
    close_segment();
    open_segment();
  }
}

void ModulePlanner::plan_state(const Instruction& instruction, Launch& launch) const {
  const State& state = state_of(instruction);
  const auto& all = state.paged ? plan_.paged : plan_.stored;
  launch.state = static_cast<int>(std::ranges::find(all, &state) - all.begin());
  if (!state.paged) return;
  check(launch.kind == LaunchKind::state_read, ErrorKind::invalid_model,
        "{}: state '{}' is paged, which only sequence ops update", instruction.op().name,
        escape(state.name));
  launch.kind = LaunchKind::page_read;
}

void ModulePlanner::select_kernel(const Instruction& instruction, Launch& launch) {
  if (instruction.op().structural == Structural::dims) {
    std::vector<DimId> values;
    for (const Dim& dim :
         std::get<std::vector<Dim>>(*find_attribute(instruction.attributes(), "values"))) {
      values.push_back(planner_.dim_id(dim));
      dims_at(current_segment()).insert(values.back());
    }
    launch.on_stream = runs_on_device(instruction);
    launch.kernel = launch.on_stream ? planner_.source().dims_kernel(std::move(values))
                                     : make_dims_kernel(std::move(values));
    return;
  }
  if (plan_.device != nullptr && instruction.op() == ops::copy) {
    launch.on_stream = true;
    launch.kernel = planner_.source().copy_kernel();
    return;
  }
  const bool needs_kernel = launch.kind == LaunchKind::kernel || launch.kind == LaunchKind::view ||
                            launch.kind == LaunchKind::state_append ||
                            launch.kind == LaunchKind::state_replace;
  if (!needs_kernel) return;
  const std::vector<const Tensor*> constants = constants_of(launch);
  const auto* packing = dynamic_cast<const PackingSource*>(&planner_.source());
  for (size_t i = 0; i < constants.size(); ++i) {
    const bool packs = packing != nullptr && packing->packs(instruction, static_cast<int>(i));
    if (constants[i] == nullptr || packs) continue;
    // The first run checks them: kernels read them as any other constant.
    const StoredConstants* file = stored_constants(*constants[i]);
    if (file != nullptr) file->restore_unchecked(constants[i]->data());
  }
  KernelChoice choice = planner_.source().select(instruction, constants);
  check(choice.kernel != nullptr, ErrorKind::internal, "no kernel for {}: {}",
        instruction.op().name, choice.reason);
  launch.kernel = std::move(choice.kernel);
  launch.reason = std::move(choice.reason);
  launch.on_stream = runs_on_device(instruction);
}

bool ModulePlanner::runs_on_device(const Instruction& instruction) const {
  return plan_.device != nullptr && instruction.target().empty();
}

Space ModulePlanner::space_of(const Instruction& instruction, const Launch& launch) const {
  if (plan_.device == nullptr) return Space::host;
  if (launch.kind == LaunchKind::view) {
    return out_.slots[static_cast<size_t>(launch.operands[0])].space;
  }
  return lies_on_device(instruction) ? Space::device : Space::host;
}

// Elements of operands that are known on the host before the launch.
void ModulePlanner::plan_known(const Instruction& instruction, Launch& launch) {
  for (const Value* operand : instruction.operands()) {
    auto& known = launch.known.emplace_back();
    if (operand == nullptr || !operand->elements()) continue;
    const auto& elements = *operand->elements();
    if (!std::all_of(elements.begin(), elements.end(),
                     [&](const Dim& dim) { return planner_.knows(known_, dim); })) {
      continue;
    }
    known.emplace();
    for (const Dim& dim : elements) {
      known->push_back(planner_.dim_id(dim));
      dims_at(current_segment()).insert(known->back());
    }
  }
}

void ModulePlanner::plan_results_of(const Instruction& instruction, Launch& launch) {
  const auto updates_state = [&](const Value& result) {
    return std::ranges::any_of(instruction.op().updates, [&](const StateUpdate& update) {
      const SlotId operand = launch.operands[static_cast<size_t>(update.operand)];
      return update.result == result.index() && operand >= 0 &&
             out_.slots[static_cast<size_t>(operand)].kind == SlotKind::state;
    });
  };
  for (const Value& result : instruction.results()) {
    SlotKind kind = SlotKind::arena;
    if (launch.kind == LaunchKind::view) kind = SlotKind::view;
    if (launch.state >= 0) kind = SlotKind::state;
    if (updates_state(result)) kind = SlotKind::state;
    const bool known = planner_.knows(known_, result.type());
    if (!known && !result.type().is_boxed()) {
      check(!instruction.found().empty(), ErrorKind::internal,
            "the shape of '%{}' ({}) is not known when {} runs", result.name(),
            result.type().to_string(), instruction.op().name);
      // Only the kernel computes this shape, so the host cannot make a view.
      if (launch.kind == LaunchKind::view) launch.kind = LaunchKind::kernel;
      if (kind == SlotKind::arena || kind == SlotKind::view) kind = SlotKind::late;
      launch.defines_symbols = true;
    }
    const SlotId slot = add_slot(result, kind);
    Slot& planned = out_.slots[static_cast<size_t>(slot)];
    planned.space = space_of(instruction, launch);
    planned.written =
        !result.uses().empty() || launch.kernel == nullptr || launch.kernel->writes(result.index());
    launch.results.push_back(slot);
  }
  launch.defines_symbols |= !instruction.found().empty();
  for (const SlotId slot : launch.results) {
    out_.slots[static_cast<size_t>(slot)].first = static_cast<int>(out_.launches.size());
  }
}

// Assigns the caller's memory to each result: at its producer, or by a copy at the end.
void ModulePlanner::plan_results() {
  for (size_t i = 0; i < module_.results().size(); ++i) {
    const Value& value = *module_.results()[i];
    const SlotId id = slot_of(value);
    Slot& slot = out_.slots[static_cast<size_t>(id)];
    if (slot.kind == SlotKind::arena || slot.kind == SlotKind::late) {
      slot.kind = SlotKind::output;
      slot.layout.clear();
      slot.index = static_cast<int>(i);
      out_.results.push_back(id);
      continue;
    }
    if (slot.kind == SlotKind::box) {
      out_.results.push_back(id);
      continue;
    }
    Launch copy;
    copy.kind = LaunchKind::copy;
    copy.on_stream = plan_.device != nullptr && slot.space == Space::device;
    copy.kernel = copy.on_stream ? planner_.source().copy_kernel() : make_copy_kernel();
    copy.operands = {id};
    Slot target;
    target.value = &value;
    target.kind = SlotKind::output;
    target.type = slot.type;
    target.space = slot.space;
    target.dims = slot.dims;
    target.index = static_cast<int>(i);
    target.segment = static_cast<int>(out_.segments.size()) - 1;
    target.first = target.last = static_cast<int>(out_.launches.size());
    if (value.type().element == ElementType::string) target.kind = SlotKind::box;
    out_.slots.push_back(std::move(target));
    copy.results = {static_cast<SlotId>(out_.slots.size() - 1)};
    out_.results.push_back(copy.results[0]);
    out_.launches.push_back(std::move(copy));
  }
}

std::shared_ptr<Plan> make_plan(std::unique_ptr<Program> program, const KernelSource& source) {
  auto plan = std::make_shared<Plan>();
  program->stage = Stage::planned;
  plan->program = std::move(program);
  plan->device = source.device();
  plan->copy = source.copy_kernel();
  for (const State& state : plan->program->states()) {
    (state.paged ? plan->paged : plan->stored).push_back(&state);
  }
  Planner planner(*plan, source);
  planner.plan_module(plan->program->main(), {});
  planner.upload().settle();
  std::vector<Dim> dims;
  for (const PlannedDim& planned : plan->dims) dims.push_back(planned.dim);
  plan->dim_program = DimProgram(dims, plan->symbols);
  release_packed_literals(*plan);
  return plan;
}

}  // namespace lathe
