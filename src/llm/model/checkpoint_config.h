// SPDX-License-Identifier: MIT
// Hugging Face folders and GGUF files as model folders: a genai_config.json for each, and the files
// of a tokenizer for GGUF.
#pragma once

#include <optional>
#include <string>

#include "base/folder.h"

namespace lathe::templates {
class ChatTemplates;
}

namespace lathe::llm {

// The text of the folder's genai_config.json. For a Hugging Face folder or a GGUF file one that
// describes it, whose decoder's file is "config.json" or the GGUF file. Io if `path` is neither.
std::string genai_config_text(const Folder& folder);

// True for the name of a decoder that import_checkpoint() reads.
bool is_checkpoint_file(const std::string& name);
// The name of a speech model's encoder, which import_audio_encoder() reads.
constexpr std::string_view kCheckpointEncoder = "config.json#encoder";

// What a GGUF file holds beside weights, as files in memory: its vocabulary (the file itself) and a
// tokenizer_config.json with the chat template. nullopt for other paths.
std::optional<Folder> gguf_tokenizer_folder(const std::string& path);
// Those of a model folder, a GGUF file or a template's file.
templates::ChatTemplates load_chat_templates(const std::string& path);

}  // namespace lathe::llm
