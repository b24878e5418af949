// SPDX-License-Identifier: MIT
// Builds a plan from a lowered program: slots, launches, segments, lifetimes.
#include "plan/planner.h"

#include <algorithm>

#include "base/interrupt.h"
#include "ir/literal.h"
#include "ir/ops.h"
#include "ops/support/state.h"
#include "passes/place.h"
#include "plan/packing_source.h"
#include "plan/planning_threads.h"
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

namespace {

// Keeps type and shape; all strides are 0, over one zero element.
void drop_literal(Tensor& literal) {
  if (info(literal.type()).bits < 8) return;
  static std::array<uint64_t, 2> zero{};
  literal =
      Tensor(literal.type(), literal.dims(), Dims(literal.dims().size(), 0), zero.data(), nullptr);
}

}  // namespace

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
  open_segment();
  for (const auto& instruction : module_.instructions()) {
    check_interrupt();
    if (instruction->deferred()) continue;  // planned before its first use
    if (instruction->op().structural == Structural::literal) {
      const Literal& literal = *instruction->literal();
      add_literal(*instruction->result(), literal.tensor);
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

void ModulePlanner::plan_inputs() {
  if (is_main_) {
    plan_page_dims();
    for (const State* state : plan_.stored) {
      std::vector<SymbolRef> symbols;
      if (state->axis >= 0) {
        (*state->type.dims)[static_cast<size_t>(state->axis)].collect_symbols(symbols);
      }
      for (const SymbolRef& symbol : symbols) known_.insert(planner_.symbol_id(*symbol));
    }
  }
  // Binds symbols first: an expression may precede the input that binds its symbols.
  std::set<SymbolId> bound;
  for (const bool binding : {true, false}) {
    for (size_t i = 0; i < module_.parameters().size(); ++i) {
      const Value& parameter = *module_.parameters()[i];
      if (binding) {
        const SlotId slot = add_slot(parameter, SlotKind::input);
        out_.slots[static_cast<size_t>(slot)].index = static_cast<int>(i);
        out_.inputs.push_back(slot);
      }
      if (!parameter.type().is_ranked()) continue;
      for (int axis = 0; axis < parameter.type().rank(); ++axis) {
        const Dim& dim = (*parameter.type().dims)[static_cast<size_t>(axis)];
        const SymbolRef symbol = dim.as_symbol();
        const bool binds = symbol != nullptr && !known_.contains(planner_.symbol_id(*symbol));
        if (binds != binding) continue;
        InputDim input{static_cast<int>(i), axis, planner_.dim_id(dim), -1};
        if (binds) {
          input.binds = planner_.symbol_id(*symbol);
          bound.insert(input.binds);
          known_.insert(input.binds);
        }
        out_.input_dims.push_back(input);
      }
    }
  }
}

// The dims of the memory that runs bind to paged states.
void ModulePlanner::plan_page_dims() {
  for (size_t i = 0; i < plan_.paged.size(); ++i) {
    const State& state = *plan_.paged[i];
    for (int axis = 0; axis < state.type.rank(); ++axis) {
      const Dim& dim = (*state.type.dims)[static_cast<size_t>(axis)];
      const SymbolRef symbol = dim.as_symbol();
      check(symbol != nullptr || dim.is_constant(), ErrorKind::unsupported,
            "paged state '{}' is {}, expected dims that are symbols or constants",
            escape(state.name), state.type.to_string());
      PageDim& planned = plan_.page_dims.emplace_back();
      planned.state = static_cast<int>(i);
      planned.axis = axis;
      planned.constant = dim.constant().value_or(0);
      if (symbol == nullptr) continue;
      planned.symbol = planner_.symbol_id(*symbol);
      known_.insert(planned.symbol);
    }
  }
}

// Adds the symbols of states that no input binds.
void ModulePlanner::plan_state_dims() {
  for (size_t i = 0; i < plan_.stored.size(); ++i) {
    const Type& type = plan_.stored[i]->type;
    for (int axis = 0; axis < type.rank(); ++axis) {
      const SymbolRef symbol = (*type.dims)[static_cast<size_t>(axis)].as_symbol();
      if (symbol == nullptr || known_.contains(planner_.symbol_id(*symbol))) continue;
      plan_.state_dims.push_back({static_cast<int>(i), axis, planner_.symbol_id(*symbol)});
      known_.insert(plan_.state_dims.back().symbol);
    }
  }
}

void ModulePlanner::open_segment() {
  Segment segment;
  segment.first = static_cast<int>(out_.launches.size());
  out_.segments.push_back(std::move(segment));
  known_at_.push_back(known_);
}

void ModulePlanner::close_segment() {
  out_.segments.back().last = static_cast<int>(out_.launches.size());
}

void ModulePlanner::add_literal(const Value& value, Tensor tensor) {
  const SlotId slot = add_slot(value, SlotKind::literal);
  out_.slots[static_cast<size_t>(slot)].index = static_cast<int>(plan_.literals.size());
  if (value.type().element == ElementType::string) {
    out_.slots[static_cast<size_t>(slot)].kind = SlotKind::literal;
  }
  plan_.literals.push_back(tensor.aligned().dense());
}

// Copies a literal to the device, once.
void ModulePlanner::add_device_literal(const Value& value, const Tensor& tensor) {
  const Tensor dense = tensor.aligned().dense();
  const auto bytes = static_cast<size_t>(std::max<int64_t>(dense.byte_size(), 1));
  Allocator& memory = plan_.device->allocator();
  void* data = memory.allocate(bytes, 64);
  check(data != nullptr, ErrorKind::out_of_memory, "cannot allocate {} bytes on {} for '%{}'",
        bytes, plan_.device->name(), value.name());
  const std::shared_ptr<void> owner(
      data, [&memory, bytes](void* pointer) { memory.deallocate(pointer, bytes); });
  const std::unique_ptr<Stream> stream = plan_.device->make_stream();
  stream->copy(data, dense.data(), static_cast<size_t>(dense.byte_size()));
  stream->synchronize();
  const SlotId slot = add_slot(value, SlotKind::literal);
  out_.slots[static_cast<size_t>(slot)].index = static_cast<int>(plan_.literals.size());
  out_.slots[static_cast<size_t>(slot)].space = Space::device;
  plan_.literals.emplace_back(dense.type(), dense.dims(), Tensor::dense_strides(dense.dims()), data,
                              owner);
}

void ModulePlanner::plan_deferred(const Instruction& instruction) {
  if (plan_.device != nullptr && lies_on_device(instruction)) {
    const Slot& source = out_.slots[static_cast<size_t>(slot_of(*instruction.operands()[0]))];
    add_device_literal(*instruction.result(), plan_.literals[static_cast<size_t>(source.index)]);
    return;
  }
  std::vector<Box> operands;
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) {
      operands.emplace_back();
      continue;
    }
    const SlotId id = slot_of(*operand);
    const Slot& slot = out_.slots[static_cast<size_t>(id)];
    check(slot.kind == SlotKind::literal, ErrorKind::internal,
          "deferred {} uses '%{}', which is not constant", instruction.op().name, operand->name());
    operands.push_back(Box{plan_.literals[static_cast<size_t>(slot.index)]});
    restore_stored(operands.back().tensor());
  }
  std::vector<Box> results =
      evaluate_instruction(instruction, operands, PlanningThreads::current());
  for (size_t i = 0; i < results.size(); ++i) {
    add_literal(*instruction.result(static_cast<int>(i)), results[i].tensor());
  }
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) continue;
    const Tensor& read = plan_.literals[static_cast<size_t>(
        out_.slots[static_cast<size_t>(slots_.at(operand))].index)];
    if (read.byte_size() > kDeferredBytes) release_mapped(read);
    drop_if_taken(*operand);
  }
}

// Frees what a deferred instruction computed once the kernels of all its users have packed it.
void ModulePlanner::drop_if_taken(const Value& value) {
  const Instruction* definition = value.definition();
  if (definition == nullptr || !definition->deferred()) return;
  const SlotId slot = slots_.at(&value);
  if (reads_.contains(slot) || ++taken_[slot] < std::ssize(value.uses())) return;
  drop_literal(plan_.literals[static_cast<size_t>(out_.slots[static_cast<size_t>(slot)].index)]);
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

size_t ModulePlanner::current_segment() const { return out_.segments.size() - 1; }

std::set<DimId>& ModulePlanner::dims_at(size_t segment) {
  if (segment_dims_.size() <= segment) segment_dims_.resize(segment + 1);
  return segment_dims_[segment];
}

std::vector<const Tensor*> ModulePlanner::constants_of(const Launch& launch) const {
  std::vector<const Tensor*> constants;
  for (const SlotId operand : launch.operands) {
    const Slot* slot = operand < 0 ? nullptr : &out_.slots[static_cast<size_t>(operand)];
    const Instruction* source = slot == nullptr ? nullptr : slot->value->definition();
    // Sessions may replace bindable literals.
    const bool is_constant = slot != nullptr && slot->kind == SlotKind::literal &&
                             (source->literal() == nullptr || !source->literal()->bindable);
    constants.push_back(is_constant ? &plan_.literals[static_cast<size_t>(slot->index)] : nullptr);
  }
  return constants;
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
    out_.slots[static_cast<size_t>(slot)].space = space_of(instruction, launch);
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
    copy.kernel = make_copy_kernel();
    copy.operands = {id};
    Slot target;
    target.value = &value;
    target.kind = SlotKind::output;
    target.type = slot.type;
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

void ModulePlanner::plan_guards() {
  for (const Guard& guard : module_.guards()) {
    for (size_t i = 0; i < out_.segments.size(); ++i) {
      if (!planner_.knows(known_at_[i], guard.a) || !planner_.knows(known_at_[i], guard.b)) {
        continue;
      }
      out_.segments[i].guards.push_back(
          {guard, planner_.dim_id(guard.a), planner_.dim_id(guard.b)});
      break;
    }
  }
  for (size_t i = 0; i < out_.segments.size(); ++i) plan_segment(i);
}

// The symbols of a found shape that are known when its segment starts.
void ModulePlanner::add_capacities(const Slot& slot, size_t segment,
                                   std::set<SymbolId>& capacities) const {
  for (const DimId dim : slot.dims) {
    for (const SymbolId symbol : plan_.dims[static_cast<size_t>(dim)].symbols) {
      if (known_at_[segment].contains(symbol)) capacities.insert(symbol);
    }
  }
}

void ModulePlanner::plan_segment(size_t index) {
  Segment& segment = out_.segments[index];
  std::set<DimId>& dims = dims_at(index);
  for (const PlannedGuard& guard : segment.guards) dims.insert({guard.a, guard.b});
  std::set<SymbolId> capacities;
  for (size_t s = 0; s < out_.slots.size(); ++s) {
    const Slot& slot = out_.slots[s];
    const bool late = slot.kind == SlotKind::late || slot.kind == SlotKind::box;
    if (static_cast<size_t>(slot.segment) != index || !slot.ranked) continue;
    if (slot.kind == SlotKind::late) add_capacities(slot, index, capacities);
    if (slot.value != nullptr && !planner_.knows(known_at_[index], slot.value->type())) continue;
    if (!late || slot.type == ElementType::string) dims.insert(slot.dims.begin(), slot.dims.end());
    if (late) continue;
    segment.slots.push_back(static_cast<SlotId>(s));
    if (slot.kind != SlotKind::arena && slot.kind != SlotKind::view) continue;
    for (const DimId dim : slot.dims) {
      const auto& symbols = plan_.dims[static_cast<size_t>(dim)].symbols;
      capacities.insert(symbols.begin(), symbols.end());
    }
  }
  std::set<SymbolId> symbols;
  for (const DimId dim : dims) {
    const PlannedDim& planned = plan_.dims[static_cast<size_t>(dim)];
    symbols.insert(planned.symbols.begin(), planned.symbols.end());
    if (!planned.constant) segment.dims.push_back(dim);
  }
  segment.symbols.assign(symbols.begin(), symbols.end());
  segment.capacities.assign(capacities.begin(), capacities.end());
}

// A slot is live until the last launch that reads it or a view of it.
void ModulePlanner::plan_lifetimes() {
  for (size_t i = 0; i < out_.launches.size(); ++i) {
    const Launch& launch = out_.launches[i];
    for (SlotId operand : launch.operands) {
      while (operand >= 0) {
        Slot& slot = out_.slots[static_cast<size_t>(operand)];
        slot.last = std::max(slot.last, static_cast<int>(i));
        const auto at = roots_.find(operand);
        operand = at == roots_.end() ? -1 : at->second;
      }
    }
    for (const SlotId result : launch.results) {
      Slot& slot = out_.slots[static_cast<size_t>(result)];
      slot.last = std::max(slot.last, static_cast<int>(i));
    }
    if (launch.kind == LaunchKind::view) {
      for (const SlotId result : launch.results) roots_[result] = launch.operands[0];
    }
  }
  // A view that was made stays valid while shapes stay, unless its memory moves.
  std::vector<bool> moves(out_.slots.size());
  for (size_t i = 0; i < moves.size(); ++i) {
    const SlotKind kind = out_.slots[i].kind;
    moves[i] = kind != SlotKind::arena && kind != SlotKind::literal && kind != SlotKind::view;
  }
  for (Launch& launch : out_.launches) {
    if (launch.kind != LaunchKind::view) continue;
    launch.moves = moves[static_cast<size_t>(launch.operands[0])];
    for (const SlotId result : launch.results) moves[static_cast<size_t>(result)] = launch.moves;
  }
}

namespace {

// Enqueuing a launch reads the operands that its op marks.
bool reads_on_host(const Launch& launch, size_t operand) {
  if (!launch.on_stream) return true;
  if (launch.instruction == nullptr) return false;
  const std::vector<int>& marked = launch.instruction->op().on_host;
  return std::ranges::find(marked, static_cast<int>(operand)) != marked.end();
}

}  // namespace
SlotId ModulePlanner::root_of(SlotId slot) const {
  for (auto at = roots_.find(slot); at != roots_.end(); at = roots_.find(slot)) slot = at->second;
  return slot;
}

// The operand that ends at this launch and whose memory its result may take; -1: none.
SlotId ModulePlanner::overwritten_operand(const Launch& launch, int at) const {
  const Slot& result = out_.slots[static_cast<size_t>(launch.results[0])];
  for (size_t i = 0; i < launch.operands.size(); ++i) {
    const SlotId id = launch.operands[i];
    if (id < 0 || !launch.kernel->may_overwrite(static_cast<int>(i))) continue;
    const Slot& operand = out_.slots[static_cast<size_t>(id)];
    const bool fits = operand.kind == SlotKind::arena && operand.space == result.space &&
                      operand.segment == result.segment && operand.dims == result.dims &&
                      operand.layout == result.layout &&
                      info(operand.type).bits == info(result.type).bits && operand.last == at;
    const bool alone = std::ranges::all_of(
        launch.operands, [&](SlotId other) { return other == id || root_of(other) != id; });
    const Slot& owner = out_.slots[static_cast<size_t>(operand.shares < 0 ? id : operand.shares)];
    if (fits && alone && owner.last == at) return operand.shares < 0 ? id : operand.shares;
  }
  return -1;
}

// Results that overwrite an operand.
void ModulePlanner::plan_in_place() {
  for (size_t i = 0; i < out_.launches.size(); ++i) {
    const Launch& launch = out_.launches[i];
    if (launch.kind != LaunchKind::kernel || launch.results.size() != 1) continue;
    Slot& result = out_.slots[static_cast<size_t>(launch.results[0])];
    if (result.kind != SlotKind::arena) continue;
    result.shares = overwritten_operand(launch, static_cast<int>(i));
    if (result.shares < 0) continue;
    Slot& owner = out_.slots[static_cast<size_t>(result.shares)];
    owner.last = std::max(owner.last, result.last);
  }
}

// The host waits before it reads what the stream writes; the stream waits for nothing, since the
// host's launches have ended when it enqueues the next.
void ModulePlanner::plan_waits() {
  std::map<SlotId, int> pending;  // host slots that the stream writes, by launch
  const auto writer_of = [&](SlotId slot) {
    for (auto at = roots_.find(slot); at != roots_.end(); at = roots_.find(slot)) slot = at->second;
    const auto at = pending.find(slot);
    return at == pending.end() ? -1 : at->second;
  };
  for (size_t i = 0; i < out_.launches.size(); ++i) {
    Launch& launch = out_.launches[i];
    for (size_t k = 0; k < launch.operands.size(); ++k) {
      if (launch.operands[k] < 0 || !reads_on_host(launch, k)) continue;
      launch.waits = std::max(launch.waits, writer_of(launch.operands[k]));
    }
    if (launch.waits >= 0) {
      out_.launches[static_cast<size_t>(launch.waits)].records = true;
      std::erase_if(pending, [&](const auto& entry) { return entry.second <= launch.waits; });
    }
    if (!launch.on_stream) continue;
    for (const SlotId result : launch.results) {
      if (out_.slots[static_cast<size_t>(result)].space == Space::host) {
        pending[result] = static_cast<int>(i);
      }
    }
  }
  keep_until_waited();
}

// Host memory that the stream reads or writes lives until the host has waited for that launch.
void ModulePlanner::keep_until_waited() {
  std::vector<int> waiters;  // each waits for a later launch than the one before
  for (size_t i = 0; i < out_.launches.size(); ++i) {
    if (out_.launches[i].waits >= 0) waiters.push_back(static_cast<int>(i));
  }
  for (size_t i = 0; i < out_.launches.size(); ++i) {
    const Launch& launch = out_.launches[i];
    if (!launch.on_stream) continue;
    const auto at = std::ranges::lower_bound(waiters, static_cast<int>(i), {}, [&](int waiter) {
      return out_.launches[static_cast<size_t>(waiter)].waits;
    });
    const int waiter = at == waiters.end() ? static_cast<int>(out_.launches.size()) : *at;
    const auto keep = [&](SlotId slot) {
      while (slot >= 0) {
        Slot& kept = out_.slots[static_cast<size_t>(slot)];
        if (kept.space == Space::host) kept.last = std::max(kept.last, waiter);
        const auto at = roots_.find(slot);
        slot = at == roots_.end() ? -1 : at->second;
      }
    };
    for (const SlotId operand : launch.operands) keep(operand);
    for (const SlotId result : launch.results) keep(result);
  }
}

namespace {

// Releases literals that every kernel using them has copied or packed; requests the others of
// compiled files.
void release_packed_literals(Plan& plan) {
  std::vector<bool> used(plan.literals.size(), false);
  std::vector<bool> taken(plan.literals.size(), false);
  for (const ModulePlan& module : plan.modules) {
    const auto literal_of = [&](SlotId id) {
      const Slot* slot = id < 0 ? nullptr : &module.slots[static_cast<size_t>(id)];
      return slot == nullptr || slot->kind != SlotKind::literal ? -1 : slot->index;
    };
    for (const Launch& launch : module.launches) {
      for (size_t i = 0; i < launch.operands.size(); ++i) {
        const int literal = literal_of(launch.operands[i]);
        if (literal < 0) continue;
        const bool is_taken =
            launch.kind == LaunchKind::kernel && !launch.kernel->reads(static_cast<int>(i));
        (is_taken ? taken : used)[static_cast<size_t>(literal)] = true;
      }
    }
    for (const SlotId result : module.results) {
      if (literal_of(result) >= 0) used[static_cast<size_t>(literal_of(result))] = true;
    }
  }
  for (size_t i = 0; i < used.size(); ++i) {
    Tensor& literal = plan.literals[i];
    if (taken[i] && !used[i] && info(literal.type()).bits >= 8) {
      drop_literal(literal);
      continue;
    }
    const StoredConstants* file = stored_constants(literal);
    if (file != nullptr && (taken[i] || used[i])) file->restore_unchecked(literal.data());
  }
}

}  // namespace

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
  std::vector<Dim> dims;
  for (const PlannedDim& planned : plan->dims) dims.push_back(planned.dim);
  plan->dim_program = DimProgram(dims, plan->symbols);
  release_packed_literals(*plan);
  return plan;
}

}  // namespace lathe
