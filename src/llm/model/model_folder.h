// SPDX-License-Identifier: MIT
// A model folder: its configuration, its files and the names of their inputs and results.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "ir/program.h"
#include "llm/config/genai_config.h"
#include "passes/decoder/pack_sequences.h"

namespace lathe {
class CompiledFile;
}

namespace lathe::llm {

// A decoder's linked stages: one program, or one for prefill and one for decode.
struct DecoderPrograms {
  std::unique_ptr<Program> program;
  // Prefill program of folders with separate stages: runs steps of several tokens. Null: `program`
  // runs all steps.
  std::unique_ptr<Program> prompt;
};

// Receives each program of a folder that is loaded, by the name of its file, and may change it.
using LoadedProgram = std::function<std::unique_ptr<Program>(const std::string& name,
                                                             std::unique_ptr<Program> program)>;

class ModelFolder {
 public:
  // Reads genai_config.json, merged with `overlay` (JSON), and generation_config.json. `path` may
  // also be a Hugging Face folder, a GGUF file or a compiled file. Io for others. Files in memory
  // take precedence over those on disk; with all in memory, `path` may be empty.
  explicit ModelFolder(const std::string& path, const std::string& overlay = {},
                       const MemoryFiles& files = {});

  const std::string& path() const { return path_; }
  // The file, if the model is in a compiled file; else null.
  const std::shared_ptr<const CompiledFile>& compiled() const { return compiled_; }
  void watch(LoadedProgram loaded) { loaded_ = std::move(loaded); }
  const GenaiConfig& config() const { return config_; }
  // Path of a file of the folder; Io if missing.
  std::string file(const std::string& name) const;
  std::unique_ptr<Program> load(const std::string& name) const;
  // The decoder's file, or its stages linked.
  DecoderPrograms load_decoder() const;
  // Folder of the tokenizer and the chat template.
  Folder beside() const;

 private:
  std::string config_path() const;  // for messages
  std::unique_ptr<Program> read(const std::string& name) const;

  std::string path_;
  std::shared_ptr<const CompiledFile> compiled_;
  LoadedProgram loaded_;
  Folder folder_;
  std::optional<Folder> gguf_;  // tokenizer and template of a GGUF file
  GenaiConfig config_;
};

// The graph's name of a GenAI input or output; `fallback` if the configuration has none.
std::string name_of(const Names& names, std::string_view noun, std::string_view fallback);
// Replaces GenAI's "%d" by the layer.
std::string layer_name(std::string_view pattern, int64_t layer);
bool has_parameter(const Program& program, std::string_view name);

// Names from the configuration, else GenAI's defaults, if the program has them.
DecoderInterface decoder_interface(const DecoderConfig& config, const Program& program,
                                   const DecoderConfig* encoder = nullptr);

}  // namespace lathe::llm
