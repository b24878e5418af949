// SPDX-License-Identifier: MIT
#include "plan/device_copies.h"

#include <algorithm>

#include "ir/ops.h"

namespace lathe {

bool is_device_copy(const Launch& launch) {
  return launch.on_stream && launch.instruction != nullptr && launch.instruction->op() == ops::copy;
}

bool reads_on_device(const Plan& plan, size_t at) {
  const ModulePlan& main = plan.modules.front();
  const SlotId slot = main.inputs[at];
  if (plan.device == nullptr || main.slots[static_cast<size_t>(slot)].kind != SlotKind::input) {
    return false;
  }
  if (main.slots[static_cast<size_t>(slot)].space == Space::device) return true;
  return std::ranges::all_of(main.launches, [&](const Launch& launch) {
    return std::ranges::find(launch.operands, slot) == launch.operands.end() ||
           is_device_copy(launch);
  });
}

bool writes_on_device(const Plan& plan, size_t at) {
  const ModulePlan& main = plan.modules.front();
  const SlotId slot = main.results[at];
  if (plan.device == nullptr || main.slots[static_cast<size_t>(slot)].kind != SlotKind::output) {
    return false;
  }
  if (main.slots[static_cast<size_t>(slot)].space == Space::device) return true;
  bool written = false;
  for (const Launch& launch : main.launches) {
    if (std::ranges::find(launch.results, slot) == launch.results.end()) continue;
    written = true;
    if (!is_device_copy(launch)) return false;
  }
  return written;
}

}  // namespace lathe
