// SPDX-License-Identifier: MIT
#include "ort_plugin/aliasing.h"

#include <algorithm>
#include <array>

#include "ir/ops.h"
#include "plan/device_copies.h"

namespace lathe::ort_plugin {
namespace {

// Ops that update a past in place where it has the address of the present.
struct CachePair {
  const Op* op;
  int past;     // operand
  int present;  // result
};

std::span<const CachePair> cache_pairs() {
  static const auto pairs = std::to_array<CachePair>({{&ops::group_query_attention, 3, 1},
                                                      {&ops::group_query_attention, 4, 2},
                                                      {&ops::multi_head_attention, 6, 1},
                                                      {&ops::multi_head_attention, 7, 2},
                                                      {&ops::sparse_attention, 3, 1},
                                                      {&ops::sparse_attention, 4, 2}});
  return pairs;
}

// The slot of the past that a launch replaces by `present`; -1: none.
SlotId past_of(const Launch& launch, SlotId present) {
  if (launch.kind != LaunchKind::kernel || launch.instruction == nullptr) return -1;
  for (const CachePair& pair : cache_pairs()) {
    const auto past = static_cast<size_t>(pair.past);
    const auto result = static_cast<size_t>(pair.present);
    if (&launch.instruction->op() != pair.op || launch.results.size() <= result ||
        launch.results[result] != present || launch.operands.size() <= past) {
      continue;
    }
    return launch.operands[past];
  }
  return -1;
}

bool has(const std::vector<SlotId>& slots, SlotId slot) {
  return std::ranges::find(slots, slot) != slots.end();
}

// The only launch that writes a slot; null: none or several.
const Launch* writer_of(const ModulePlan& main, SlotId slot) {
  const auto writes = [&](const Launch& launch) { return has(launch.results, slot); };
  const auto first = std::ranges::find_if(main.launches, writes);
  if (first == main.launches.end()) return nullptr;
  return std::ranges::count_if(main.launches, writes) == 1 ? &*first : nullptr;
}

// The slot that is copied into this one between host and device: what lies on the device is both.
SlotId origin_of(const ModulePlan& main, SlotId slot) {
  const Launch* writer = writer_of(main, slot);
  return writer != nullptr && is_device_copy(*writer) && writer->operands.size() == 1
             ? writer->operands[0]
             : slot;
}

}  // namespace

std::vector<int> replaced_inputs(const Plan& plan) {
  const ModulePlan& main = plan.modules.front();
  std::vector<int> out(main.results.size(), -1);
  for (size_t r = 0; r < main.results.size(); ++r) {
    const SlotId present = main.results[r];
    if (main.slots[static_cast<size_t>(present)].kind != SlotKind::output) continue;
    const SlotId made = origin_of(main, present);
    const Launch* writer = writer_of(main, made);
    if (writer == nullptr || writer_of(main, present) == nullptr) continue;
    const SlotId past = past_of(*writer, made);
    if (past < 0 || std::ranges::count(writer->operands, past) != 1) continue;
    const SlotId origin = origin_of(main, past);
    const auto input = std::ranges::find(main.inputs, origin);
    if (input == main.inputs.end()) continue;
    const auto reads_later = [&](const Launch& launch) {
      return &launch != writer && (has(launch.operands, past) || has(launch.operands, origin)) &&
             (launch.kind == LaunchKind::view || &launch > writer);
    };
    if (std::ranges::any_of(main.launches, reads_later)) continue;
    out[r] = static_cast<int>(input - main.inputs.begin());
  }
  return out;
}

}  // namespace lathe::ort_plugin
