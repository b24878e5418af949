// SPDX-License-Identifier: MIT
// Which target a model folder runs on when nobody says.
#pragma once

#include <memory>
#include <string>

#include "llm/config/genai_config.h"
#include "targets/target.h"

namespace lathe::llm {

struct TargetChoice {
  std::shared_ptr<const Target> target;
  std::string warning{};  // the folder wants a device that is not here; else empty
};

// The first of the folder's providers whose target is present, else the best present. `folder` is
// for the warning.
TargetChoice choose_target(const GenaiConfig& config, const std::string& folder);

}  // namespace lathe::llm
