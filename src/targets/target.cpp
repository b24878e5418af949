// SPDX-License-Identifier: MIT
#include "targets/target.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#if defined(__x86_64__)
#include "targets/cpu/kernel_table.h"
#include "targets/cpu/target.h"
#endif
#include "targets/gpu_library.h"
#include "targets/null/target.h"
#include "targets/ref/target.h"
#include "targets/sim/target.h"

namespace lathe {
namespace {

// Targets that compute nothing, or exist for tests, are not in the list.
constexpr auto kBestFirst = std::to_array<std::string_view>({"gpu", "cpu", "ref"});

const std::vector<std::shared_ptr<const Target>>& targets() {
  static const std::vector<std::shared_ptr<const Target>> all{
      std::make_shared<RefTarget>(),
#if defined(__x86_64__)
      std::make_shared<CpuTarget>(),
#endif
      std::make_shared<NullTarget>(),    std::make_shared<SimTarget>(false),
      std::make_shared<SimTarget>(true),
  };
  return all;
}

}  // namespace

std::vector<std::string_view> target_names() {
  std::vector<std::string_view> names;
  for (const auto& target : targets()) names.push_back(target->name());
  return names;
}

std::vector<std::string_view> targets_best_first() {
  const std::vector<std::string_view> present = target_names();
  std::vector<std::string_view> best_first;
  std::ranges::copy_if(kBestFirst, std::back_inserter(best_first), [&](std::string_view name) {
    return std::ranges::find(present, name) != present.end();
  });
  return best_first;
}

void check_host() {
  for (const auto& target : targets()) target->check_host();
}

std::vector<std::string_view> targets_with_kernel(const Op& op) {
  std::vector<std::string_view> names;
#if defined(__x86_64__)
  if (cpu::find_entry(op) != nullptr) names.emplace_back("cpu");
#endif
  if (has_gpu_kernel(op)) names.emplace_back("gpu");
  return names;
}

std::shared_ptr<const Target> present_target(std::string_view name) {
  for (const auto& target : targets()) {
    if (target->name() == name) return target;
  }
  return find_gpu_target(name, nullptr);
}

std::shared_ptr<const Target> find_target(std::string_view name) {
  if (name == kAutoTarget) name = targets_best_first().front();
  if (auto target = present_target(name)) return target;
  std::vector<std::string_view> names = target_names();
  names.insert(names.begin(), kAutoTarget);
  if (is_gpu_target(name)) {
    std::string reason;
    if (auto target = find_gpu_target(name, &reason)) return target;
    fail(ErrorKind::device, "target '{}' is not present: {}; present are {}", name, reason,
         fmt::join(names, ", "));
  }
  names.insert(names.end(), {"gpu", "cuda", "hip"});
  fail(ErrorKind::invalid_argument, "unknown target '{}'{}; targets: {}", escape(name),
       did_you_mean(name, names), fmt::join(names, ", "));
}

}  // namespace lathe
