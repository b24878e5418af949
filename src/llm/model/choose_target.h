// SPDX-License-Identifier: MIT
// Default target of a model folder.
#pragma once

#include <memory>
#include <string>

#include "llm/config/genai_config.h"
#include "targets/target.h"

namespace lathe::llm {

struct TargetChoice {
  std::shared_ptr<const Target> target;
  std::shared_ptr<const Target> encoder;  // the encoder's target
  std::string warning{};  // names a requested device that is unavailable; else empty
};

// Each program uses its first provider whose target is present. The decoder and its stages are
// linked into one program and use the best of theirs. Without providers, the best present target.
// An encoder without providers uses the decoder's target. `folder` is for the warning.
TargetChoice choose_target(const GenaiConfig& config, const std::string& folder);

}  // namespace lathe::llm
