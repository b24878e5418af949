// SPDX-License-Identifier: MIT
// A prompt with its answer so far as bytes, to go on later, elsewhere, or in another process.
#pragma once

#include <span>
#include <vector>

#include "llm/model/generator.h"

namespace lathe::llm {

std::vector<std::byte> save_prompt(const PromptState& state);
// InvalidArgument for bytes that are no saved prompt, are damaged, or come from another model.
PromptState restore_prompt(const Decoder& decoder, std::span<const std::byte> bytes);

}  // namespace lathe::llm
