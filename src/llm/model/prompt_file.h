// SPDX-License-Identifier: MIT
// Saves and restores a prompt with its answer so far as bytes, for later use or another process.
#pragma once

#include <span>
#include <vector>

#include "llm/model/generator.h"

namespace lathe::llm {

std::vector<std::byte> save_prompt(const PromptState& state);
// InvalidArgument for bytes that are not a saved prompt, are damaged, or belong to another model.
PromptState restore_prompt(const Decoder& decoder, std::span<const std::byte> bytes);

}  // namespace lathe::llm
