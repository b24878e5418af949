// SPDX-License-Identifier: MIT
// Saves and restores a sequence as bytes, for later use or another process.
#pragma once

#include <span>
#include <vector>

#include "llm/model/sequence.h"

namespace lathe::llm {

// Saves all states with checkpoints.
std::vector<std::byte> save_sequence(const Sequence& sequence);

// InvalidArgument for bytes that are damaged or not a saved sequence, for a model with other
// states, and for more than `max_tokens` tokens. The page size may differ.
Sequence restore_sequence(std::shared_ptr<const CacheLayout> layout,
                          std::span<const std::byte> bytes, int64_t max_tokens);

}  // namespace lathe::llm
