// SPDX-License-Identifier: MIT
// Where the host waits for the stream of a device.
#include <algorithm>

#include "plan/planner.h"

namespace lathe {

namespace {

// Enqueuing a launch reads the operands that its op marks.
bool reads_on_host(const Launch& launch, size_t operand) {
  if (!launch.on_stream) return true;
  if (launch.instruction == nullptr) return false;
  const std::vector<int>& marked = launch.instruction->op().on_host;
  return std::ranges::find(marked, static_cast<int>(operand)) != marked.end();
}

}  // namespace
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

}  // namespace lathe
