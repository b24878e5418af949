// SPDX-License-Identifier: MIT
#include "llm/model/choose_target.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "llm/config/providers.h"

namespace lathe::llm {
namespace {

bool is_present(std::string_view name) {
  const auto names = target_names();
  return std::ranges::find(names, name) != names.end();
}

// First present target of a program's providers. If none is present, returns "" and adds the first
// provider to `absent`.
std::string_view target_of(const SessionSettings& session, const std::string& part,
                           std::vector<std::string>& absent) {
  for (const ProviderChoice& choice : session.providers) {
    const Provider* provider = find_provider(choice.name);
    if (provider != nullptr && is_present(provider->target)) return provider->target;
  }
  if (!session.providers.empty()) {
    absent.push_back(escape(session.providers.front().name) + part);
  }
  return {};
}

}  // namespace

TargetChoice choose_target(const GenaiConfig& config, const std::string& folder) {
  std::vector<std::string> absent;
  std::vector<std::string_view> requested = {target_of(config.decoder.session, "", absent)};
  for (const StageConfig& stage : config.decoder.pipeline) {
    const std::string part = fmt::format(" for its stage '{}'", escape(stage.name));
    requested.push_back(target_of(stage.program.session, part, absent));
  }
  const std::vector<std::string_view> best_first = targets_best_first();
  auto best = std::ranges::find_if(best_first, [&](std::string_view name) {
    return std::ranges::find(requested, name) != requested.end();
  });
  if (best == best_first.end()) best = best_first.begin();
  TargetChoice choice{find_target(*best), find_target(*best)};
  if (config.encoder) {
    const std::string_view own = target_of(config.encoder->session, " for its encoder", absent);
    if (!own.empty()) choice.encoder = find_target(own);
  }
  if (!absent.empty()) {
    choice.warning = fmt::format("'{}' requests {}, unavailable here; using {}", escape(folder),
                                 fmt::join(absent, ", "), *best);
  }
  return choice;
}

}  // namespace lathe::llm
