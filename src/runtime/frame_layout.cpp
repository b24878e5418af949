// SPDX-License-Identifier: MIT
// Where a frame's slots lie: capacities, layouts, workspaces.
#include <algorithm>

#include "ops/support/views.h"
#include "runtime/frame.h"

namespace lathe {
namespace {

constexpr size_t kCachedLayouts = 8;
// The upper bound of a found result may be far from its size: it is placed there only if it is in
// proportion to the operands.
constexpr int64_t kFoundPerOperandByte = 16;
// An address for views of memory that is not yet placed.
constexpr uintptr_t kNowhere = uintptr_t{1} << 20;

}  // namespace

void Frame::add_placements(size_t segment) {
  const Segment& planned = planned_.segments[segment];
  for (const Space space : {Space::host, Space::device}) {
    Placement placement;
    placement.segment = segment;
    placement.space = space;
    for (const SlotId id : planned.slots) {
      if (slot(id).kind != SlotKind::arena || slot(id).space != space) continue;
      (slot(id).shares < 0 ? placement.slots : placement.sharing).push_back(id);
    }
    for (int i = planned.first; i < planned.last; ++i) {
      const Step& step = steps_[static_cast<size_t>(i)];
      const bool stream = step.launch->on_stream;
      if (step.launch->kind == LaunchKind::view && !step.launch->moves &&
          slot(step.launch->results[0]).space == space) {
        placement.views.push_back(i);
      }
      for (const SlotId id : step.launch->results) {
        if (slot(id).kind == SlotKind::late && slot(id).space == space && slot(id).ranked) {
          placement.found.push_back(id);
        }
      }
      if (stream == (space == Space::device) && step.kernel != nullptr &&
          step.kernel->uses_workspace()) {
        placement.workspaces.push_back(i);
      }
    }
    const bool empty = placement.slots.empty() && placement.found.empty() &&
                       placement.views.empty() && placement.workspaces.empty();
    if (empty) continue;
    placement.layouts.reserve(kCachedLayouts);
    placements_.push_back(std::move(placement));
    const Device* device = space == Space::device  ? plan_.device
                           : run_context_.reserves ? &host_device()
                                                   : nullptr;
    std::unique_ptr<Arena>& arena = arenas_[static_cast<size_t>(space)];
    if (arena == nullptr) {
      arena =
          std::make_unique<Arena>(device, run_context_.scratch_of(space), planned_.segments.size());
    }
  }
}

// The shape of a slot, without data: of this run, or the largest of its capacity (nullopt: without
// a bound).
std::optional<TensorView> Frame::largest(SlotId id, bool actual) const {
  if (actual) return views_[static_cast<size_t>(id)];
  const auto range_of = [&](const Symbol& symbol) {
    for (size_t i = 0; i < plan_.symbols.size(); ++i) {
      if (plan_.symbols[i]->name != symbol.name) continue;
      const int64_t value = run_context_.symbols[i];
      return value < 0 ? symbol.range : Range{capacity_floor(value), capacity_for(value)};
    }
    return symbol.range;
  };
  std::array<int64_t, kMaxRank> dims;
  int64_t count = 1;
  for (size_t axis = 0; axis < slot(id).dims.size(); ++axis) {
    const PlannedDim& planned = plan_.dims[static_cast<size_t>(slot(id).dims[axis])];
    dims[axis] = planned.constant ? *planned.constant : planned.dim.range_under(range_of).max;
    if (dims[axis] == kUnbounded ||
        __builtin_mul_overflow(count, std::max<int64_t>(dims[axis], 1), &count)) {
      return std::nullopt;
    }
  }
  return ordered_view(slot(id).type, {dims.data(), slot(id).dims.size()}, slot(id).layout, nullptr);
}

// Scratch of a launch; nullopt as for layout_items.
std::optional<int64_t> Frame::workspace_of(const Step& step, bool actual) const {
  std::vector<TensorView> views;
  std::vector<const TensorView*> in;
  std::vector<TensorView*> out;
  views.reserve(step.launch->operands.size() + step.launch->results.size());
  const auto add = [&](SlotId id) -> TensorView* {
    const bool known = id >= 0 && slot(id).ranked;
    const std::optional<TensorView> view = known ? largest(id, actual) : std::nullopt;
    if (!view) return nullptr;
    const SlotKind kind = slot(id).kind;
    // Callers, views and states choose strides by themselves.
    const bool dense =
        kind == SlotKind::arena || kind == SlotKind::late || kind == SlotKind::literal;
    TensorView& added = views.emplace_back(*view);
    if (!dense) added.strides.fill(-1);
    return &added;
  };
  for (const SlotId id : step.launch->operands) {
    in.push_back(add(id));
    if (id >= 0 && in.back() == nullptr) return std::nullopt;
  }
  for (const SlotId id : step.launch->results) {
    // The shape of a result that its own launch finds is unknown.
    out.push_back(id >= 0 && slot(id).kind == SlotKind::late ? nullptr : add(id));
  }
  LaunchArgs most = step.args;
  most.in = in;
  most.out = out;
  return step.kernel->workspace_bytes(most);
}

// Finds out which views of this segment are possible: the others need memory.
void Frame::resolve_views(const Placement& placement) {
  for (const int i : placement.views) {
    Step& step = steps_[static_cast<size_t>(i)];
    TensorView& operand = view(step.launch->operands[0]);
    void* const data = operand.data;
    operand.data = reinterpret_cast<void*>(kNowhere);  // NOLINT: never read
    set_known(step);
    make_views(step);
    operand.data = data;
    if (step.viewed) continue;
    for (const SlotId id : step.launch->results) {
      view(id) = dense_view(view(id).type, view(id).extents(), nullptr);
    }
  }
}

std::optional<int64_t> Frame::found_bytes(SlotId id) const {
  const std::optional<TensorView> most = largest(id, false);
  if (!most) return std::nullopt;
  const Launch& launch = planned_.launches[static_cast<size_t>(slot(id).first)];
  int64_t given = 0;
  for (const SlotId operand : launch.operands) {
    if (operand < 0 || !slot(operand).ranked) continue;
    const std::optional<TensorView> view = largest(operand, false);
    if (view) given += bytes_for(view->type, view->count());
  }
  const int64_t bytes = bytes_for(most->type, most->count());
  return bytes / kFoundPerOperandByte <= given ? std::optional(bytes) : std::nullopt;
}

void Frame::choose_slots(Placement& placement) {
  placement.placed = placement.slots;
  for (const int i : placement.views) {
    const Step& step = steps_[static_cast<size_t>(i)];
    if (step.viewed) continue;
    const auto& results = step.launch->results;
    placement.placed.insert(placement.placed.end(), results.begin(), results.end());
  }
  for (const SlotId id : placement.found) {
    if (found_bytes(id)) placement.placed.push_back(id);
  }
}

// Capacities, the views that are copies, and what earlier segments keep.
void Frame::find_key(const Placement& placement) {
  key_.clear();
  const Segment& segment = planned_.segments[placement.segment];
  for (const SymbolId id : segment.capacities) {
    key_.push_back(capacity_for(run_context_.symbols[static_cast<size_t>(id)]));
  }
  key_.insert(key_.end(), placement.placed.begin() + std::ssize(placement.slots),
              placement.placed.end());
  Arena& arena = *arenas_[static_cast<size_t>(placement.space)];
  for (const FixedItem& item : arena.fixed(placement.segment, segment.first)) {
    key_.push_back(-item.offset - 1);
    key_.push_back(item.bytes);
  }
}

// The last launch that reads each slot or a view of it. The plan's answer counts copies of this
// and earlier segments as views.
void Frame::find_lifetimes(size_t segment) {
  last_.resize(planned_.slots.size());
  for (size_t i = 0; i < last_.size(); ++i) {
    last_[i] = plan_.device != nullptr ? planned_.slots[i].last : planned_.slots[i].first;
  }
  if (plan_.device != nullptr) return;  // memory also waits for the stream
  std::vector<SlotId> roots(planned_.slots.size(), -1);
  for (size_t i = 0; i < planned_.launches.size(); ++i) {
    const Launch& launch = planned_.launches[i];
    for (SlotId id : launch.operands) {
      for (; id >= 0; id = roots[static_cast<size_t>(id)]) {
        last_[static_cast<size_t>(id)] =
            std::max(last_[static_cast<size_t>(id)], static_cast<int>(i));
      }
    }
    if (launch.kind != LaunchKind::view) continue;
    const bool known = static_cast<int>(i) < planned_.segments[segment].last && !launch.moves;
    if (known && !steps_[i].viewed) continue;
    for (const SlotId id : launch.results) roots[static_cast<size_t>(id)] = launch.operands[0];
  }
  for (size_t i = 0; i < last_.size(); ++i) {
    const SlotId owner = planned_.slots[i].shares;
    if (owner < 0) continue;
    last_[static_cast<size_t>(owner)] = std::max(last_[static_cast<size_t>(owner)], last_[i]);
  }
}

std::optional<std::vector<LayoutItem>> Frame::layout_items(const Placement& placement,
                                                           bool actual) const {
  std::vector<LayoutItem> items;
  for (const SlotId id : placement.placed) {
    const bool found = slot(id).kind == SlotKind::late;
    const std::optional<TensorView> view = largest(id, actual && !found);
    if (!view) return std::nullopt;
    const int64_t bytes = slot(id).written ? bytes_for(view->type, view->count()) : 0;
    items.push_back({bytes, slot(id).first, last_[static_cast<size_t>(id)]});
  }
  for (const int launch : placement.workspaces) {
    const std::optional<int64_t> bytes = workspace_of(steps_[static_cast<size_t>(launch)], actual);
    if (!bytes) return std::nullopt;
    items.push_back({*bytes, launch, launch});
  }
  return items;
}

const Frame::Placement::Cached& Frame::layout_for(Placement& placement) {
  find_key(placement);
  ++clock_;
  for (Placement::Cached& cached : placement.layouts) {
    if (cached.key != key_) continue;
    cached.used = clock_;
    return cached;
  }
  find_lifetimes(placement.segment);
  std::optional<std::vector<LayoutItem>> items = layout_items(placement, false);
  if (!items) {
    // A size without a bound for this capacity: uses the actual sizes and does not cache the
    // layout.
    items = layout_items(placement, true);
    key_.assign(1, -1);
  }
  ++run_context_.counters.layouts;
  if (placement.layouts.size() == kCachedLayouts) {
    placement.layouts.erase(
        std::ranges::min_element(placement.layouts, {}, &Placement::Cached::used));
  }
  Arena& arena = *arenas_[static_cast<size_t>(placement.space)];
  const int first = planned_.segments[placement.segment].first;
  Layout layout = lathe::place(*items, arena.fixed(placement.segment, first));
  placement.layouts.push_back({key_, std::move(*items), std::move(layout), clock_});
  return placement.layouts.back();
}

void Frame::place(Placement& placement) {
  resolve_views(placement);
  choose_slots(placement);
  for (const int i : placement.views) {
    for (const SlotId id : steps_[static_cast<size_t>(i)].launch->results) {
      placed_[static_cast<size_t>(id)] = nullptr;
    }
  }
  for (const SlotId id : placement.found) placed_[static_cast<size_t>(id)] = nullptr;
  const Placement::Cached& cached = layout_for(placement);
  Arena& arena = *arenas_[static_cast<size_t>(placement.space)];
  char* base = arena.place(placement.segment, cached.layout, cached.items);
  for (size_t i = 0; i < placement.placed.size(); ++i) {
    const SlotId id = placement.placed[i];
    char* data = base + cached.layout.offsets[i];
    if (slot(id).kind == SlotKind::arena) {
      view(id).data = data;
    } else {
      placed_[static_cast<size_t>(id)] = data;
      placed_bytes_[static_cast<size_t>(id)] = cached.items[i].bytes;
    }
  }
  for (const SlotId id : placement.sharing) view(id).data = view(slot(id).shares).data;
  for (size_t i = 0; i < placement.workspaces.size(); ++i) {
    steps_[static_cast<size_t>(placement.workspaces[i])].args.workspace =
        base + cached.layout.offsets[placement.placed.size() + i];
  }
}

}  // namespace lathe
