// SPDX-License-Identifier: MIT
// A model folder opened: its configuration, its files and the names of their inputs and results.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/folder.h"
#include "ir/program.h"
#include "llm/config/genai_config.h"
#include "passes/decoder/pack_sequences.h"

namespace lathe::llm {

// What a decoder's stages make: one program, or one for each kind of step.
struct DecoderPrograms {
  std::unique_ptr<Program> program;
  // Of folders with stages for one kind of step alone: steps of several rows run this one, the
  // other takes single rows. Null: one serves both.
  std::unique_ptr<Program> prompt;
};

class ModelFolder {
 public:
  // Reads genai_config.json, joined with `overlay` (JSON), and generation_config.json. Io if there
  // is none. Files in memory stand before those on disk; `path` may be empty if all are there.
  explicit ModelFolder(const std::string& path, const std::string& overlay = {},
                       const MemoryFiles& files = {});

  const std::string& path() const { return folder_.path(); }
  const GenaiConfig& config() const { return config_; }
  // The path of a file of the folder; Io if it is not there, InvalidModel if it stands for one that
  // was not fetched.
  std::string file(const std::string& name) const;
  std::unique_ptr<Program> load(const std::string& name) const;
  // The decoder's file, or its stages joined.
  DecoderPrograms load_decoder() const;
  // Where the tokenizer and the chat template lie.
  Folder beside() const;

 private:
  std::string config_path() const;  // for messages

  Folder folder_;
  GenaiConfig config_;
};

// The graph's name for a noun of GenAI's; `fallback` where the configuration has none.
std::string name_of(const Names& names, std::string_view noun, std::string_view fallback);
// GenAI's "%d" is the layer.
std::string layer_name(std::string_view pattern, int64_t layer);
bool has_parameter(const Program& program, std::string_view name);

// Names that the configuration gives, else GenAI's own, where the program has them.
DecoderInterface decoder_interface(const DecoderConfig& config, const Program& program,
                                   const DecoderConfig* encoder = nullptr);

}  // namespace lathe::llm
