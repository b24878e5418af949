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
  std::shared_ptr<const Target> encoder;  // where the encoder runs
  std::string warning{};                  // the folder wants a device that is not here; else empty
};

// Each program's first provider whose target is present; the best of the decoder's and its stages',
// which are one program here; the best present where none is named or none is here. An encoder that
// names none runs where the decoder does. `folder` is for the warning.
TargetChoice choose_target(const GenaiConfig& config, const std::string& folder);

}  // namespace lathe::llm
