// SPDX-License-Identifier: MIT
#include "llm/model/choose_target.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "llm/config/providers.h"

namespace lathe::llm {
namespace {

constexpr auto kBestFirst = std::to_array<std::string_view>({"gpu", "cpu", "ref"});

bool is_present(std::string_view name) {
  const auto names = target_names();
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

TargetChoice choose_target(const GenaiConfig& config, const std::string& folder) {
  const auto& wanted = config.decoder.session.providers;
  for (const ProviderChoice& choice : wanted) {
    const Provider* provider = find_provider(choice.name);
    if (provider != nullptr && is_present(provider->target)) {
      return {find_target(provider->target)};
    }
  }
  const auto* best = std::ranges::find_if(kBestFirst, is_present);
  TargetChoice choice{find_target(*best)};
  if (!wanted.empty()) {
    choice.warning = fmt::format("'{}' wants {}, which is not here: it runs on {}", escape(folder),
                                 escape(wanted.front().name), *best);
  }
  return choice;
}

}  // namespace lathe::llm
