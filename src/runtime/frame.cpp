// SPDX-License-Identifier: MIT
#include "runtime/frame.h"

#include <algorithm>

#include "base/error_reason.h"
#include "base/interrupt.h"
#include "ops/support/views.h"
#include "runtime/assumption.h"
#include "runtime/control_flow.h"
#include "runtime/profiler.h"

namespace lathe {
void RunContext::check_cancelled() const {
  check_interrupt();
  check(cancel == nullptr || !cancel->cancelled(), ErrorKind::interrupted,
        "run cancelled after {} launches", counters.launches);
  check(!deadline || Clock::now() < *deadline, ErrorKind::interrupted,
        "run timed out after {} launches", counters.launches);
}

Frame::Frame(const Plan& plan, int module, RunContext& run_context)
    : plan_(plan),
      planned_(plan.modules[static_cast<size_t>(module)]),
      run_context_(run_context),
      views_(planned_.slots.size()),
      boxes_(planned_.slots.size()),
      dims_(plan.dim_program.initial()),
      placed_(planned_.slots.size()),
      placed_bytes_(planned_.slots.size()),
      late_index_(planned_.slots.size(), -1),
      children_(planned_.launches.size()),
      requests_(planned_.launches.size()),
      received_(planned_.module->results().size()) {
  for (size_t i = 0; i < planned_.slots.size(); ++i) {
    const Slot& slot = planned_.slots[i];
    if (slot.kind == SlotKind::literal ||
        (slot.kind == SlotKind::box && slot.index >= 0 && slot.value->definition() != nullptr &&
         slot.value->definition()->op().structural == Structural::literal)) {
      const Tensor& literal = plan.literals[static_cast<size_t>(slot.index)];
      views_[i] = literal.view();
      boxes_[i] = Box{literal};
    } else if (slot.kind == SlotKind::box) {
      dropped_.push_back(static_cast<SlotId>(i));
    }
    if (slot.kind == SlotKind::late || slot.kind == SlotKind::view) {
      late_index_[i] = static_cast<int>(late_.size());
      late_.emplace_back(run_context.scratch_of(slot.space));
    }
  }
  resolve_launches();
  last_symbols_.resize(planned_.segments.size());
  for (size_t i = 0; i < planned_.segments.size(); ++i) {
    add_placements(i);
    if (plan_.device != nullptr) add_run_block(i);
    last_symbols_[i].reserve(planned_.segments[i].symbols.size());
  }
  if (plan_.device != nullptr) find_replays();
}

void Frame::add_run_block(size_t segment) {
  RunBlock& block =
      *run_blocks_.emplace_back(std::make_unique<RunBlock>(run_context_.device_scratch));
  block.staging = dims_;
  const auto* dims = static_cast<const int64_t*>(
      block.memory.reserve(std::max<int64_t>(std::ssize(dims_), 1) * int64_t{sizeof(int64_t)}));
  const Segment& planned = planned_.segments[segment];
  for (int i = planned.first; i < planned.last; ++i) {
    Step& step = steps_[static_cast<size_t>(i)];
    if (!step.launch->on_stream) continue;
    step.args.dims = dims;
    step.args.host = nullptr;
  }
}

// Points every launch to its views.
void Frame::resolve_launches() {
  size_t operands = 0;
  size_t results = 0;
  for (const Launch& launch : planned_.launches) {
    operands += launch.operands.size() + 1;  // state_append: also the lengths
    results += launch.results.size();
  }
  operand_pointers_.reserve(operands);
  operand_dims_.reserve(operands);
  result_pointers_.reserve(results);
  result_dims_.reserve(results);
  events_.resize(planned_.launches.size());
  steps_.resize(planned_.launches.size());
  for (size_t i = 0; i < planned_.launches.size(); ++i) {
    const Launch& launch = planned_.launches[i];
    children_[i].resize(launch.bodies.size());
    Step& step = steps_[i];
    step.launch = &launch;
    step.kernel = launch.kernel.get();
    const size_t first = operand_pointers_.size();
    for (const SlotId id : launch.operands) {
      operand_pointers_.push_back(id < 0 ? nullptr : &view(id));
      operand_dims_.push_back(id < 0 ? std::span<const int32_t>() : std::span(slot(id).dims));
    }
    step.updates = launch.kind == LaunchKind::kernel && updates_state(launch);
    step.args.in = std::span(operand_pointers_.data() + first, launch.operands.size());
    step.args.in_dims = std::span(operand_dims_.data() + first, launch.operands.size());
    operand_pointers_.push_back(nullptr);
    operand_dims_.emplace_back();
    const size_t first_result = result_pointers_.size();
    for (const SlotId id : launch.results) {
      result_pointers_.push_back(&view(id));
      result_dims_.emplace_back(slot(id).dims);
      step.allocates |=
          slot(id).kind == SlotKind::box && slot(id).ranked && !launch.defines_symbols;
    }
    step.args.out = std::span(result_pointers_.data() + first_result, launch.results.size());
    step.args.out_dims = std::span(result_dims_.data() + first_result, launch.results.size());
    if (launch.records) events_[i] = plan_.device->make_event();
    step.args.dims = dims_.data();
    memory_.push_back(std::make_unique<LaunchMemory>(*this, launch));
    step.args.host = memory_.back().get();
    if (launch.kind == LaunchKind::view) requests_[i] = make_request(launch);
  }
}

std::unique_ptr<ViewRequest> Frame::make_request(const Launch& launch) {
  auto request = std::make_unique<ViewRequest>();
  request->instruction = launch.instruction;
  request->known_.resize(launch.operands.size());
  request->is_known_.resize(launch.operands.size());
  for (size_t k = 0; k < launch.known.size(); ++k) {
    request->is_known_[k] = launch.known[k].has_value();
    if (launch.known[k]) request->known_[k].resize(launch.known[k]->size());
  }
  return request;
}

void Frame::run(std::span<const Argument> arguments, Receiver& receiver) {
  start(arguments, receiver);
  if (run_context_.stream != nullptr) run_context_.stream->synchronize();
  finish(receiver);
}

void Frame::bind_stream() {
  if (stream_ == run_context_.stream.get()) return;
  stream_ = run_context_.stream.get();
  for (Step& step : steps_) {
    if (step.launch->on_stream) step.args.stream = run_context_.stream.get();
  }
}

void Frame::start(std::span<const Argument> arguments, Receiver& receiver) {
  bind_stream();
  receiver_ = &receiver;
  std::fill(received_.begin(), received_.end(), false);
  bind(arguments);
  same_ = complete_ && std::ranges::all_of(arenas_, [](const auto& arena) {
            return arena == nullptr || arena->stays();
          });
  complete_ = false;
  for (size_t s = 0; s < planned_.segments.size(); ++s) {
    start_segment(s);
    const Segment& segment = planned_.segments[s];
    run_launches(segment.first, segment.last);
  }
}

void Frame::bind(std::span<const Argument> arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const SlotId id = planned_.inputs[i];
    const Argument& argument = arguments[i];
    if (slot(id).kind == SlotKind::box) {
      if (argument.box != nullptr) {
        box(id) = *argument.box;
      } else {
        // Copies: the memory belongs to the caller's frame, which reuses it.
        const auto extents = argument.view.extents();
        const Dims strides(argument.view.strides.begin(),
                           argument.view.strides.begin() + argument.view.rank);
        box(id) = Box{Tensor(argument.view.type, Dims(extents.begin(), extents.end()), strides,
                             argument.view.data, nullptr)
                          .clone()};
      }
      view(id) = box(id).is_tensor() ? box(id).tensor().view() : TensorView{};
    } else {
      view(id) = argument.box != nullptr ? argument.box->tensor().view() : argument.view;
      if (view(id).rank != static_cast<int>(slot(id).dims.size())) {
        fail({ErrorKind::invalid_argument, reason::kRank}, "'{}' has rank {}, expected {}",
             slot(id).value->name(), view(id).rank, slot(id).value->type().to_string());
      }
    }
  }
  for (const InputDim& input : planned_.input_dims) bind_input_dim(input);
}

void Frame::bind_input_dim(const InputDim& input) {
  const SlotId id = planned_.inputs[static_cast<size_t>(input.input)];
  const int64_t extent = view(id).dims[static_cast<size_t>(input.axis)];
  const PlannedDim& planned = plan_.dims[static_cast<size_t>(input.dim)];
  if (input.binds >= 0) {
    const Symbol& symbol = *plan_.symbols[static_cast<size_t>(input.binds)];
    if (extent < symbol.range.min || extent > symbol.range.max) {
      fail({ErrorKind::invalid_argument, reason::kShape},
           "input '{}': axis {} has size {}, expected '{}' in {}..{}",
           escape(slot(id).value->name()), input.axis, extent, escape(symbol.name),
           symbol.range.min, symbol.range.max);
    }
    run_context_.symbols[static_cast<size_t>(input.binds)] = extent;
    return;
  }
  const int64_t expected = required_value(input.dim);
  if (extent == expected) return;
  const std::string message = fmt::format(
      "input '{}': axis {} has size {}, expected {}", escape(slot(id).value->name()), input.axis,
      extent,
      planned.constant
          ? std::to_string(expected)
          : fmt::format("{} (the value of '{}')", expected, escape(planned.dim.to_string())));
  if (planned.dim.as_symbol() != nullptr) throw AssumptionFailure(message);
  throw Error({ErrorKind::invalid_argument, reason::kShape}, message);
}

std::optional<int64_t> Frame::known_extent(SlotId id, size_t axis) {
  const DimId dim = slot(id).dims[axis];
  const bool known = plan_.dim_program.evaluate(dim, run_context_.symbols, dims_);
  return known ? std::optional(dims_[static_cast<size_t>(dim)]) : std::nullopt;
}

int64_t Frame::required_value(DimId id) {
  if (plan_.dim_program.evaluate(id, run_context_.symbols, dims_)) return dim(id);
  const PlannedDim& planned = plan_.dims[static_cast<size_t>(id)];
  std::string bindings;
  for (const SymbolId symbol : planned.symbols) {
    bindings += fmt::format(" {} = {}", escape(plan_.symbols[static_cast<size_t>(symbol)]->name),
                            run_context_.symbols[static_cast<size_t>(symbol)]);
  }
  fail(ErrorKind::invalid_argument, "size {} has no value for{}", escape(planned.dim.to_string()),
       bindings);
}

void Frame::check_guard(const PlannedGuard& planned) {
  const int64_t a = required_value(planned.a);
  const int64_t b = required_value(planned.b);
  const Guard& guard = planned.guard;
  bool holds = a == b;
  std::string_view relation = "equal";
  if (guard.relation == Guard::Relation::less_equal) {
    holds = a <= b;
    relation = "be at most";
  } else if (guard.relation == Guard::Relation::broadcast) {
    holds = a == b || a == 1 || b == 1;
    relation = "broadcast with";
  }
  if (holds) return;
  const std::string message =
      fmt::format("{}: {} = {} must {} {} = {}", escape(guard.reason), escape(guard.a.to_string()),
                  a, relation, escape(guard.b.to_string()), b);
  if (guard.kind == Guard::Kind::assumption) throw AssumptionFailure(message);
  throw Error({ErrorKind::invalid_argument, reason::kShape}, message);
}

// Compares the values of the segment's symbols with the last run's and keeps the new ones.
bool Frame::same_symbols(const Segment& segment, std::vector<int64_t>& last) const {
  bool same = last.size() == segment.symbols.size();
  last.resize(segment.symbols.size());
  for (size_t i = 0; i < last.size(); ++i) {
    const int64_t value = run_context_.symbols[static_cast<size_t>(segment.symbols[i])];
    same = same && last[i] == value;
    last[i] = value;
  }
  return same;
}

void Frame::start_segment(size_t index) {
  const Segment& segment = planned_.segments[index];
  same_ = same_symbols(segment, last_symbols_[index]) && same_;
  if (!same_) {
    for (const PlannedGuard& guard : segment.guards) check_guard(guard);
    for (const DimId id : segment.dims) required_value(id);
    for (const SlotId id : segment.slots) shape_slot(id);
  }
  for (const SlotId id : segment.slots) {
    if (slot(id).kind == SlotKind::output) receive_output(id);
  }
  if (same_) return;
  for (const auto& arena : arenas_) {
    if (arena != nullptr) arena->restart(index);
  }
  for (Placement& placement : placements_) {
    if (placement.segment == index) place(placement);
  }
  if (plan_.device == nullptr) return;
  for (int i = segment.first; i < segment.last; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    if (step.launch->on_stream && step.kernel != nullptr) step.kernel->expect(step.args);
  }
  upload_dims(index);
}

void Frame::shape_slot(SlotId id) {
  const Slot& slot = this->slot(id);
  if (slot.kind == SlotKind::input || slot.kind == SlotKind::literal ||
      slot.kind == SlotKind::state) {
    return;
  }
  std::array<int64_t, kMaxRank> dims;
  for (size_t axis = 0; axis < slot.dims.size(); ++axis) {
    dims[axis] = dim(slot.dims[axis]);
    if (dims[axis] >= 0) continue;  // not check(): formatting the arguments allocates
    fail(ErrorKind::invalid_argument, "'{}': axis {} would have size {} ({})",
         escape(slot.value->name()), axis, dims[axis],
         escape(plan_.dims[static_cast<size_t>(slot.dims[axis])].dim.to_string()));
  }
  view(id) = ordered_view(slot.type, {dims.data(), slot.dims.size()}, slot.layout, nullptr);
}

void Frame::receive_output(SlotId id) {
  const Slot& slot = this->slot(id);
  std::array<int64_t, kMaxRank> dims;
  for (size_t axis = 0; axis < slot.dims.size(); ++axis) dims[axis] = dim(slot.dims[axis]);
  view(id) = receiver_->receive(slot.index, slot.type, {dims.data(), slot.dims.size()});
  received_[static_cast<size_t>(slot.index)] = true;
}

// The values of dims so far; earlier segments of this run have their own block.
void Frame::upload_dims(size_t segment) {
  RunBlock& block = *run_blocks_[segment];
  std::copy(dims_.begin(), dims_.end(), block.staging.begin());
  run_context_.stream->copy(block.memory.data(), block.staging.data(),
                            dims_.size() * sizeof(int64_t));
}

Argument Frame::argument(SlotId id) {
  return slot(id).kind == SlotKind::box ? Argument{view(id), &box(id)}
                                        : Argument{view(id), nullptr};
}

Frame& Frame::child(const Launch& launch, int body) {
  auto& slot =
      children_[static_cast<size_t>(&launch - planned_.launches.data())][static_cast<size_t>(body)];
  if (slot == nullptr) {
    slot = std::make_unique<Frame>(plan_, launch.bodies[static_cast<size_t>(body)], run_context_);
  }
  return *slot;
}

TensorView Frame::result_memory(SlotId id, std::span<const int64_t> dims) {
  const Slot& slot = this->slot(id);
  TensorView& known = view(id);
  const bool placed = slot.kind == SlotKind::arena ||
                      (slot.kind == SlotKind::output && received_[static_cast<size_t>(slot.index)]);
  if (placed) {
    check(std::equal(dims.begin(), dims.end(), known.extents().begin(), known.extents().end()),
          ErrorKind::internal, "'{}' has shape [{}], but inference returned [{}]",
          slot.value->name(), fmt::join(dims, ", "), fmt::join(known.extents(), ", "));
    return known;
  }
  if (slot.kind == SlotKind::box) {
    box(id) = Box{Tensor(slot.type, Dims(dims.begin(), dims.end()), *run_context_.budget)};
    known = box(id).tensor().view();
  } else if (slot.kind == SlotKind::output) {
    known = receiver_->receive(slot.index, slot.type, dims);
    received_[static_cast<size_t>(slot.index)] = true;
  } else if (void* place = placed_[static_cast<size_t>(id)];
             place != nullptr &&
             bytes_for(slot.type, element_count(dims)) <= placed_bytes_[static_cast<size_t>(id)]) {
    known = dense_view(slot.type, dims, place);
  } else {
    // Allocates by capacity, so that growing shapes rarely reallocate.
    std::array<int64_t, kMaxRank> most;
    for (size_t axis = 0; axis < dims.size(); ++axis) most[axis] = capacity_for(dims[axis]);
    const int64_t count = element_count({most.data(), dims.size()});
    GrowingBuffer& memory = late_[static_cast<size_t>(late_index_[static_cast<size_t>(id)])];
    known = dense_view(slot.type, dims, memory.reserve(bytes_for(slot.type, count)));
  }
  return known;
}

void Frame::launch(size_t index) {
  Step& step = steps_[index];
  const Launch& launch = *step.launch;
  run_context_.check_cancelled();
  ++run_context_.counters.launches;
  ProfileScope scope(*this, launch);
  if (launch.waits >= 0) events_[static_cast<size_t>(launch.waits)]->synchronize();
  switch (launch.kind) {
    case LaunchKind::kernel:
      if (step.allocates) allocate_results(launch);
      if (step.updates) continue_versions(launch);
      run_kernel(step);
      break;
    case LaunchKind::view:
      if (launch.moves || !same_ || !step.viewed) launch_view(step);
      break;
    case LaunchKind::if_:
      run_if(*this, launch);
      break;
    case LaunchKind::loop:
      run_loop(*this, launch);
      break;
    case LaunchKind::scan:
      run_scan(*this, launch);
      break;
    case LaunchKind::late:
      run_rank_specialised(*this, launch);
      break;
    case LaunchKind::copy:
      launch_copy(step);
      break;
    case LaunchKind::page_read:
      view(launch.results[0]) = run_context_.pages[static_cast<size_t>(launch.state)];
      break;
    default:
      launch_state(step);
      break;
  }
  if (launch.records) run_context_.stream->record(*events_[index]);
  // A profile attributes to each launch its own time.
  if (run_context_.profiler != nullptr && launch.on_stream) run_context_.stream->synchronize();
  scope.finish();
  if (launch.defines_symbols) bind_found(launch);
}

void Frame::run_kernel(Step& step) {
  step.args.pool = step.launch->on_stream ? nullptr : run_context_.pool;
  memory_[static_cast<size_t>(&step - steps_.data())]->start();
  step.kernel->launch(step.args);
}

bool Frame::updates_state(const Launch& launch) const {
  return std::ranges::any_of(launch.results, [&](SlotId id) {
    return planned_.slots[static_cast<size_t>(id)].kind == SlotKind::state;
  });
}

// The next version of a state has the memory of the one before.
void Frame::continue_versions(const Launch& launch) {
  for (const StateUpdate& update : launch.instruction->op().updates) {
    const SlotId result = launch.results[static_cast<size_t>(update.result)];
    if (slot(result).kind != SlotKind::state) continue;
    view(result) = view(launch.operands[static_cast<size_t>(update.operand)]);
  }
}

// Results in boxes whose shape is known before the launch: strings.
void Frame::allocate_results(const Launch& launch) {
  for (const SlotId id : launch.results) {
    const Slot& slot = this->slot(id);
    if (slot.kind != SlotKind::box || !slot.ranked) continue;
    std::array<int64_t, kMaxRank> dims;
    for (size_t axis = 0; axis < slot.dims.size(); ++axis) {
      dims[axis] = required_value(slot.dims[axis]);
    }
    result_memory(id, {dims.data(), slot.dims.size()});
  }
}

bool Frame::try_view(const Launch& launch, size_t result) {
  ViewRequest& request = *requests_[static_cast<size_t>(&launch - planned_.launches.data())];
  request.index = static_cast<int>(result);
  request.operand = view(launch.operands[0]);
  request.result = view(launch.results[result]);
  if (!launch.instruction->op().view(request)) return false;
  view(launch.results[result]) = request.result;
  return true;
}

// The values of the view's operands that are known on the host.
void Frame::set_known(Step& step) {
  const Launch& launch = *step.launch;
  ViewRequest& request = *requests_[static_cast<size_t>(&launch - planned_.launches.data())];
  for (size_t k = 0; k < launch.known.size(); ++k) {
    if (!launch.known[k]) continue;
    for (size_t i = 0; i < launch.known[k]->size(); ++i) {
      request.known_[k][i] = dim((*launch.known[k])[i]);
    }
  }
}

void Frame::make_views(Step& step) {
  const Launch& launch = *step.launch;
  step.viewed = true;
  for (size_t r = 0; r < launch.results.size() && step.viewed; ++r) {
    TensorView& result = view(launch.results[r]);
    result = dense_view(result.type, result.extents(), nullptr);
    step.viewed = try_view(launch, r);
  }
}

// Makes the views, or the memory of copies.
void Frame::prepare_view(Step& step) {
  const Launch& launch = *step.launch;
  set_known(step);
  make_views(step);
  if (step.viewed) return;
  for (const SlotId id : launch.results) {
    std::array<int64_t, kMaxRank> dims;
    const auto extents = view(id).extents();
    std::copy(extents.begin(), extents.end(), dims.begin());
    result_memory(id, {dims.data(), extents.size()});
  }
}

void Frame::launch_view(Step& step) {
  prepare_view(step);
  if (!step.viewed) run_kernel(step);
}

void Frame::launch_state(Step& step) {
  const Launch& launch = *step.launch;
  StateStore& store = *run_context_.states[static_cast<size_t>(launch.state)];
  const SlotId result = launch.results[0];
  if (launch.kind == LaunchKind::state_read) {
    std::array<int64_t, kMaxRank> dims;
    const Slot& slot = this->slot(result);
    for (size_t axis = 0; axis < slot.dims.size(); ++axis) {
      dims[axis] = required_value(slot.dims[axis]);
    }
    view(result) = store.read({dims.data(), slot.dims.size()});
    return;
  }
  if (launch.kind == LaunchKind::state_append) {
    view(result) = store.append(view(launch.operands[0]), view(launch.operands[1]));
    // The kernel's third operand: the lengths, where they differ.
    const TensorView* lengths = store.ragged_lengths();
    step.args.in = std::span(step.args.in.data(), lengths == nullptr ? 2 : 3);
    operand_pointers_[static_cast<size_t>(step.args.in.data() - operand_pointers_.data()) + 2] =
        lengths;
  } else {
    view(result) = store.replace(view(launch.operands[1]).extents());
  }
  run_kernel(step);
}

void Frame::launch_copy(Step& step) {
  const SlotId source = step.launch->operands[0];
  const SlotId result = step.launch->results[0];
  if (slot(result).kind == SlotKind::box) {
    box(result) = box(source);
    view(result) = view(source);
    return;
  }
  const TensorView& from = view(source);
  const TensorView to = result_memory(result, from.extents());
  if (from.data == to.data && from.strides == to.strides) return;
  run_context_.counters.output_bytes_copied += bytes_for(from.type, from.count());
  run_kernel(step);
}

void Frame::bind_found(const Launch& launch) {
  for (const SlotId id : launch.results) {
    const Type& type = slot(id).value->type();
    if (!type.is_ranked()) continue;
    if (slot(id).kind == SlotKind::box && box(id).is_tensor()) view(id) = box(id).tensor().view();
    for (size_t axis = 0; axis < type.dims->size(); ++axis) {
      const SymbolRef symbol = (*type.dims)[axis].as_symbol();
      if (symbol == nullptr || symbol->kind != SymbolKind::found) continue;
      const PlannedDim& planned = plan_.dims[static_cast<size_t>(slot(id).dims[axis])];
      run_context_.symbols[static_cast<size_t>(planned.symbols.front())] = view(id).dims[axis];
    }
  }
}

void Frame::drop_boxes() {
  for (const SlotId id : dropped_) box(id) = Box{};
  for (const auto& memory : memory_) memory->start();
  for (const auto& bodies : children_) {
    for (const auto& child : bodies) {
      if (child != nullptr) child->drop_boxes();
    }
  }
}

void Frame::finish(Receiver& receiver) {
  for (size_t i = 0; i < planned_.results.size(); ++i) {
    const SlotId id = planned_.results[i];
    if (slot(id).kind == SlotKind::box) receiver.receive_box(static_cast<int>(i), box(id));
  }
  complete_ = true;
}

}  // namespace lathe
