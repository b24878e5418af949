// SPDX-License-Identifier: MIT
// Segments: what the host computes where their shapes become known.
#include "plan/planner.h"

namespace lathe {

void ModulePlanner::open_segment() {
  Segment segment;
  segment.first = static_cast<int>(out_.launches.size());
  out_.segments.push_back(std::move(segment));
  known_at_.push_back(known_);
}

void ModulePlanner::close_segment() {
  out_.segments.back().last = static_cast<int>(out_.launches.size());
}

size_t ModulePlanner::current_segment() const { return out_.segments.size() - 1; }

std::set<DimId>& ModulePlanner::dims_at(size_t segment) {
  if (segment_dims_.size() <= segment) segment_dims_.resize(segment + 1);
  return segment_dims_[segment];
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

// The symbols of a shape that are known when its segment starts.
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
  // Workspaces depend on all that their launches read and write, inputs and outputs too.
  for (int i = segment.first; i < segment.last; ++i) {
    const Launch& launch = out_.launches[static_cast<size_t>(i)];
    if (launch.kernel == nullptr || !launch.kernel->uses_workspace()) continue;
    for (const std::vector<SlotId>* ids : {&launch.operands, &launch.results}) {
      for (const SlotId id : *ids) {
        if (id < 0 || !out_.slots[static_cast<size_t>(id)].ranked) continue;
        add_capacities(out_.slots[static_cast<size_t>(id)], index, capacities);
      }
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

}  // namespace lathe
