// SPDX-License-Identifier: MIT
// Models by their name in an existing Hugging Face cache: "org/name", "org/name:Q4_K_M",
// "org/name:file.gguf". Nothing is downloaded.
#pragma once

#include <string>

namespace lathe::llm {

// The path of a model: `name` itself if it is a path that exists, or is not of the form above.
// Otherwise the folder or GGUF file of the revision "main" in the cache (HF_HUB_CACHE, HF_HOME/hub,
// XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub). Io, with what is there, if the model
// or the file is not in the cache.
std::string resolve_model(const std::string& name);

}  // namespace lathe::llm
