// SPDX-License-Identifier: MIT
#include "runtime/frame.h"

#include <algorithm>

#include "runtime/assumption.h"
#include "runtime/control_flow.h"
#include "runtime/profiler.h"

namespace lathe {
namespace {

constexpr size_t kCachedLayouts = 8;

TensorView dense_view(ElementType type, std::span<const int64_t> dims, void* data) {
  TensorView view;
  view.type = type;
  view.rank = static_cast<int>(dims.size());
  view.data = data;
  int64_t stride = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    view.dims[axis] = dims[axis];
    view.strides[axis] = stride;
    stride *= std::max<int64_t>(dims[axis], 1);
  }
  return view;
}

}  // namespace

void RunContext::check_cancelled() const {
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
      dims_(plan.dims.size()),
      late_index_(planned_.slots.size(), -1),
      children_(planned_.launches.size()),
      requests_(planned_.launches.size()),
      received_(planned_.module->results().size()) {
  for (size_t id = 0; id < dims_.size(); ++id) dims_[id] = plan.dims[id].constant.value_or(-1);
  for (size_t i = 0; i < planned_.slots.size(); ++i) {
    const Slot& slot = planned_.slots[i];
    if (slot.kind == SlotKind::literal ||
        (slot.kind == SlotKind::box && slot.index >= 0 && slot.value->definition() != nullptr &&
         slot.value->definition()->op().structural == Structural::literal)) {
      const Tensor& literal = plan.literals[static_cast<size_t>(slot.index)];
      views_[i] = literal.view();
      boxes_[i] = Box{literal};
    }
    if (slot.kind == SlotKind::late || slot.kind == SlotKind::view) {
      late_index_[i] = static_cast<int>(late_.size());
      late_.emplace_back(run_context.budget);
    }
  }
  for (size_t i = 0; i < planned_.launches.size(); ++i) {
    const Launch& launch = planned_.launches[i];
    contexts_.push_back(std::make_unique<LaunchContext>(*this, launch));
    children_[i].resize(launch.bodies.size());
    if (launch.kind != LaunchKind::view) continue;
    requests_[i] = std::make_unique<ViewRequest>();
    requests_[i]->instruction = launch.instruction;
    requests_[i]->known_.resize(launch.operands.size());
    requests_[i]->is_known_.resize(launch.operands.size());
    for (size_t k = 0; k < launch.known.size(); ++k) {
      requests_[i]->is_known_[k] = launch.known[k].has_value();
      if (launch.known[k]) requests_[i]->known_[k].resize(launch.known[k]->size());
    }
  }
  for (const Segment& segment : planned_.segments) {
    Arena& arena = arenas_.emplace_back(run_context.budget);
    arena.layouts.reserve(kCachedLayouts);
    for (const SlotId id : segment.slots) {
      if (slot(id).kind == SlotKind::arena) arena.slots.push_back(id);
    }
    capacities_.reserve(std::max(capacities_.capacity(), segment.capacities.size()));
  }
}

void Frame::run(std::span<const Argument> arguments, Receiver& receiver) {
  receiver_ = &receiver;
  std::fill(received_.begin(), received_.end(), false);
  bind(arguments);
  for (size_t s = 0; s < planned_.segments.size(); ++s) {
    start_segment(s);
    const Segment& segment = planned_.segments[s];
    for (int i = segment.first; i < segment.last; ++i) launch(static_cast<size_t>(i));
  }
  finish(receiver);
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
        fail(ErrorKind::invalid_argument, "'{}' has rank {}, expected {}", slot(id).value->name(),
             view(id).rank, slot(id).value->type().to_string());
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
      fail(ErrorKind::invalid_argument, "input '{}': axis {} has size {}, expected '{}' in {}..{}",
           escape(slot(id).value->name()), input.axis, extent, escape(symbol.name),
           symbol.range.min, symbol.range.max);
    }
    run_context_.symbols[static_cast<size_t>(input.binds)] = extent;
    return;
  }
  evaluate_dim(input.dim);
  const int64_t expected = dim(input.dim);
  if (extent == expected) return;
  const std::string message = fmt::format(
      "input '{}': axis {} has size {}, expected {}", escape(slot(id).value->name()), input.axis,
      extent,
      planned.constant
          ? std::to_string(expected)
          : fmt::format("{} (the value of '{}')", expected, escape(planned.dim.to_string())));
  if (planned.dim.as_symbol() != nullptr) throw AssumptionFailure(message);
  throw Error(ErrorKind::invalid_argument, message);
}

std::optional<int64_t> Frame::value_of(const PlannedDim& planned) const {
  struct Lookup {
    const PlannedDim& planned;
    const std::vector<int64_t>& values;
  } const lookup{planned, run_context_.symbols};
  return planned.dim.evaluate([&lookup](const Symbol& symbol) -> std::optional<int64_t> {
    for (const auto& [ref, number] : lookup.planned.symbols) {
      if (ref->name != symbol.name) continue;
      const int64_t known = lookup.values[static_cast<size_t>(number)];
      return known < 0 ? std::nullopt : std::optional<int64_t>(known);
    }
    return std::nullopt;
  });
}

std::optional<int64_t> Frame::known_extent(SlotId id, size_t axis) const {
  const PlannedDim& planned = plan_.dims[static_cast<size_t>(slot(id).dims[axis])];
  return planned.constant ? planned.constant : value_of(planned);
}

int64_t Frame::required_value(DimId id) const {
  const PlannedDim& planned = plan_.dims[static_cast<size_t>(id)];
  if (planned.constant) return *planned.constant;
  const std::optional<int64_t> value = value_of(planned);
  if (value) return *value;
  std::string bindings;
  for (const auto& [ref, number] : planned.symbols) {
    bindings += fmt::format(" {} = {}", escape(ref->name),
                            run_context_.symbols[static_cast<size_t>(number)]);
  }
  fail(ErrorKind::invalid_argument, "size {} has no value for{}", escape(planned.dim.to_string()),
       bindings);
}

void Frame::evaluate_dim(DimId id) {
  if (!plan_.dims[static_cast<size_t>(id)].constant) {
    dims_[static_cast<size_t>(id)] = required_value(id);
  }
}

void Frame::check_guard(const PlannedGuard& planned) const {
  const int64_t a = dim(planned.a);
  const int64_t b = dim(planned.b);
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
  throw Error(ErrorKind::invalid_argument, message);
}

void Frame::start_segment(size_t index) {
  const Segment& segment = planned_.segments[index];
  for (const PlannedGuard& guard : segment.guards) {
    evaluate_dim(guard.a);
    evaluate_dim(guard.b);
    check_guard(guard);
  }
  for (const DimId id : segment.dims) evaluate_dim(id);
  for (const SlotId id : segment.slots) shape_slot(id);
  place_segment(index);
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
  const std::span<const int64_t> extents(dims.data(), slot.dims.size());
  if (slot.kind == SlotKind::output) {
    view(id) = receiver_->receive(slot.index, slot.type, extents);
    received_[static_cast<size_t>(slot.index)] = true;
  } else {
    view(id) = dense_view(slot.type, extents, nullptr);
  }
}

const Layout& Frame::layout_for(size_t index) {
  const Segment& segment = planned_.segments[index];
  Arena& arena = arenas_[index];
  capacities_.clear();
  for (const SymbolId id : segment.capacities) {
    capacities_.push_back(capacity_for(run_context_.symbols[static_cast<size_t>(id)]));
  }
  ++clock_;
  for (Arena::Cached& cached : arena.layouts) {
    if (cached.capacities != capacities_) continue;
    cached.used = clock_;
    return cached.layout;
  }
  const auto range_of = [&](const Symbol& symbol) {
    for (size_t i = 0; i < plan_.symbols.size(); ++i) {
      if (plan_.symbols[i]->name != symbol.name) continue;
      const int64_t value = run_context_.symbols[i];
      return Range{capacity_floor(value), capacity_for(value)};
    }
    return symbol.range;
  };
  std::vector<LayoutItem> items;
  bool bounded = true;
  for (const SlotId id : arena.slots) {
    int64_t count = 1;
    for (const DimId dim_id : slot(id).dims) {
      const PlannedDim& planned = plan_.dims[static_cast<size_t>(dim_id)];
      const int64_t most =
          planned.constant ? *planned.constant : planned.dim.range_under(range_of).max;
      bounded = bounded && most != kUnbounded &&
                !__builtin_mul_overflow(count, std::max<int64_t>(most, 1), &count);
      if (!bounded) break;
    }
    // A size without a bound for this capacity: uses the actual size and does not cache the layout.
    if (!bounded) break;
    items.push_back({bytes_for(slot(id).type, count), slot(id).first, slot(id).last});
  }
  if (!bounded) {
    items.clear();
    for (const SlotId id : arena.slots) {
      items.push_back({bytes_for(slot(id).type, element_count(view(id).extents())), slot(id).first,
                       slot(id).last});
    }
    capacities_.assign(segment.capacities.size(), -1);
  }
  ++run_context_.counters.layouts;
  if (arena.layouts.size() == kCachedLayouts) {
    arena.layouts.erase(std::min_element(
        arena.layouts.begin(), arena.layouts.end(),
        [](const Arena::Cached& a, const Arena::Cached& b) { return a.used < b.used; }));
  }
  arena.layouts.push_back({capacities_, place(items), clock_});
  return arena.layouts.back().layout;
}

void Frame::place_segment(size_t index) {
  Arena& arena = arenas_[index];
  if (arena.slots.empty()) return;
  const Layout& layout = layout_for(index);
  char* base = static_cast<char*>(arena.memory.reserve(layout.total));
  for (size_t i = 0; i < arena.slots.size(); ++i) {
    view(arena.slots[i]).data = base + layout.offsets[i];
  }
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
    box(id) = Box{Tensor(slot.type, Dims(dims.begin(), dims.end()), run_context_.budget)};
    known = box(id).tensor().view();
  } else if (slot.kind == SlotKind::output) {
    known = receiver_->receive(slot.index, slot.type, dims);
    received_[static_cast<size_t>(slot.index)] = true;
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
  const Launch& launch = planned_.launches[index];
  LaunchContext& context = *contexts_[index];
  run_context_.check_cancelled();
  ++run_context_.counters.launches;
  const ProfileScope scope(run_context_, launch);
  switch (launch.kind) {
    case LaunchKind::kernel:
    case LaunchKind::dims:
      context.prepare();
      run_context_.queue->enqueue(context);
      break;
    case LaunchKind::view:
      launch_view(launch, context);
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
      launch_copy(launch, context);
      break;
    default:
      launch_state(launch, context);
      break;
  }
  if (launch.defines_symbols) bind_found(launch);
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

void Frame::launch_view(const Launch& launch, LaunchContext& context) {
  ViewRequest& request = *requests_[static_cast<size_t>(&launch - planned_.launches.data())];
  for (size_t k = 0; k < launch.known.size(); ++k) {
    if (!launch.known[k]) continue;
    for (size_t i = 0; i < launch.known[k]->size(); ++i) {
      // Not evaluate_dim(): it writes values that enqueued work reads.
      request.known_[k][i] = required_value((*launch.known[k])[i]);
    }
  }
  bool all = true;
  for (size_t r = 0; r < launch.results.size(); ++r) all = all && try_view(launch, r);
  if (all) return;
  for (const SlotId id : launch.results) {
    std::array<int64_t, kMaxRank> dims;
    const auto extents = view(id).extents();
    std::copy(extents.begin(), extents.end(), dims.begin());
    result_memory(id, {dims.data(), extents.size()});
  }
  context.prepare();
  run_context_.queue->enqueue(context);
}

void Frame::launch_state(const Launch& launch, LaunchContext& context) {
  StateStore& store = *run_context_.states[static_cast<size_t>(launch.state)];
  const SlotId result = launch.results[0];
  if (launch.kind == LaunchKind::state_read) {
    std::array<int64_t, kMaxRank> dims;
    const Slot& slot = this->slot(result);
    for (size_t axis = 0; axis < slot.dims.size(); ++axis) dims[axis] = dim(slot.dims[axis]);
    view(result) = store.read({dims.data(), slot.dims.size()});
    return;
  }
  if (launch.kind == LaunchKind::state_append) {
    view(result) = store.append(view(launch.operands[0]), view(launch.operands[1]));
  } else {
    view(result) = store.replace(view(launch.operands[1]).extents());
  }
  context.prepare();
  run_context_.queue->enqueue(context);
}

void Frame::launch_copy(const Launch& launch, LaunchContext& context) {
  if (slot(launch.results[0]).kind == SlotKind::box) {
    box(launch.results[0]) = box(launch.operands[0]);
    return;
  }
  const TensorView& from = view(launch.operands[0]);
  TensorView to = result_memory(launch.results[0], from.extents());
  if (from.data == to.data && from.strides == to.strides) return;
  run_context_.counters.output_bytes_copied += bytes_for(from.type, from.count());
  context.prepare();
  run_context_.queue->enqueue(context);
}

void Frame::bind_found(const Launch& launch) {
  run_context_.queue->wait();
  for (const SlotId id : launch.results) {
    const Type& type = slot(id).value->type();
    if (!type.is_ranked()) continue;
    if (slot(id).kind == SlotKind::box && box(id).is_tensor()) view(id) = box(id).tensor().view();
    for (size_t axis = 0; axis < type.dims->size(); ++axis) {
      const SymbolRef symbol = (*type.dims)[axis].as_symbol();
      if (symbol == nullptr || symbol->kind != SymbolKind::found) continue;
      const PlannedDim& planned = plan_.dims[static_cast<size_t>(slot(id).dims[axis])];
      run_context_.symbols[static_cast<size_t>(planned.symbols.front().second)] =
          view(id).dims[axis];
    }
  }
}

void Frame::finish(Receiver& receiver) {
  run_context_.queue->wait();
  for (size_t i = 0; i < planned_.results.size(); ++i) {
    const SlotId id = planned_.results[i];
    if (slot(id).kind == SlotKind::box) receiver.receive_box(static_cast<int>(i), box(id));
  }
}

}  // namespace lathe
