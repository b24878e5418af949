// SPDX-License-Identifier: MIT
// How long slots live, and results that overwrite operands.
#include <algorithm>

#include "plan/planner.h"

namespace lathe {

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

}  // namespace lathe
