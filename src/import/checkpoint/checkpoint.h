// SPDX-License-Identifier: MIT
// Opens language models from Hugging Face folders and GGUF files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/folder.h"
#include "import/checkpoint/architectures.h"
#include "import/checkpoint/config.h"
#include "import/checkpoint/weights.h"
#include "ir/program.h"

namespace lathe::checkpoint {

struct Checkpoint {
  std::string place;  // for messages
  Config config;
  Weights weights;
  const Architecture* architecture = nullptr;
  std::vector<double> rope_divisors{};
  MemoryFile gguf{};  // empty: a Hugging Face folder
};

// True for a folder with a config.json that has a model_type, and without a genai_config.json.
bool is_hf_folder(const Folder& folder);
// True for a file that begins as GGUF does.
bool is_gguf_file(const std::string& path);

// Reads the configuration and maps the weights. If a GGUF file is split, `path` is its first part.
Checkpoint open_hf_folder(const Folder& folder);
Checkpoint open_gguf(const std::string& path);

// Unsupported for an encoder of texts.
void check_decoder(const Checkpoint& checkpoint);
// The decoder with its KV caches as inputs past_key_values.N.key and .value, and results
// present.N.key and .value; recurrent states are past_key_values.N.conv_state and .recurrent_state.
std::unique_ptr<Program> import_checkpoint(const Checkpoint& checkpoint);

}  // namespace lathe::checkpoint
