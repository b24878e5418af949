// SPDX-License-Identifier: MIT
#include "cli/profile.h"

#include <algorithm>

#include "ir/ops.h"
#include "ir/print.h"
#include "passes/set_compute_type.h"

namespace lathe::cli {
namespace {

// Kernels are named TARGET.KERNEL.
std::string place_of(const Launch& launch) {
  if (launch.kind == LaunchKind::view) return "view";
  if (launch.kernel == nullptr) return "executor";
  const std::string_view name = launch.kernel->name();
  return std::string(name.substr(0, name.find('.')));
}

bool multiplies_constants(const Instruction& instruction) {
  if (!compute_of(instruction).empty()) return true;
  return instruction.op() == ops::region &&
         std::ranges::any_of(instruction.bodies()[0]->instructions(),
                             [](const auto& step) { return !compute_of(*step).empty(); });
}

}  // namespace

void ProfileSum::add(const Profiler& profiler, double run_ms) {
  ++runs_;
  total_ms_ += run_ms;
  // Events are in order of their start; the children of an event follow it one level deeper.
  std::vector<const Launch*> parents;
  for (const Profiler::Event& event : profiler.events()) {
    const double elapsed =
        std::chrono::duration<double, std::milli>(event.end - event.begin).count();
    const auto depth = static_cast<size_t>(event.depth);
    parents.resize(depth);
    if (depth > 0) entries_[parents.back()].milliseconds -= elapsed;
    const auto [at, added] = entries_.try_emplace(event.launch);
    if (added) order_.push_back(event.launch);
    ++at->second.calls;
    at->second.milliseconds += elapsed;
    parents.push_back(event.launch);
  }
}

Profile ProfileSum::mean() const {
  Profile profile;
  const auto runs = static_cast<double>(std::max<int64_t>(runs_, 1));
  std::map<std::string, ProfileRow> ops;
  profile.total_ms = total_ms_ / runs;
  profile.overhead_ms = profile.total_ms;
  for (const Launch* launch : order_) {
    const Entry& entry = entries_.at(launch);
    ProfileRow row;
    row.name = describe(*launch);
    row.op = launch->instruction == nullptr ? "copy" : op_text(*launch->instruction);
    if (launch->instruction != nullptr && !launch->instruction->results().empty()) {
      row.result = escape(launch->instruction->result()->type().to_string());
    }
    row.where = place_of(*launch);
    row.calls = entry.calls / std::max<int64_t>(runs_, 1);
    row.milliseconds = entry.milliseconds / runs;
    profile.overhead_ms -= row.milliseconds;
    profile.places[row.where] += row.milliseconds;
    if (launch->instruction != nullptr && multiplies_constants(*launch->instruction)) {
      profile.products_ms += row.milliseconds;
    }
    ProfileRow& sum = ops[row.op];
    sum.name = sum.op = row.op;
    sum.calls += row.calls;
    sum.milliseconds += row.milliseconds;
    profile.instructions.push_back(std::move(row));
  }
  for (auto& [name, row] : ops) profile.ops.push_back(std::move(row));
  const auto slower = [](const ProfileRow& a, const ProfileRow& b) {
    return a.milliseconds != b.milliseconds ? a.milliseconds > b.milliseconds : a.name < b.name;
  };
  std::sort(profile.instructions.begin(), profile.instructions.end(), slower);
  std::sort(profile.ops.begin(), profile.ops.end(), slower);
  return profile;
}

}  // namespace lathe::cli
