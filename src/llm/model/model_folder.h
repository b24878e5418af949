// SPDX-License-Identifier: MIT
// A model folder opened: its configuration, its files and the names of their inputs and results.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ir/program.h"
#include "llm/config/genai_config.h"
#include "passes/pack_sequences.h"

namespace lathe::llm {

// Files that lie in memory, by name; they stand before those of the folder.
using MemoryFiles = std::map<std::string, std::shared_ptr<const std::string>, std::less<>>;

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
  // is none. `path` may be empty if all files lie in memory.
  explicit ModelFolder(std::string path, const std::string& overlay = {}, MemoryFiles files = {});

  const std::string& path() const { return path_; }
  const GenaiConfig& config() const { return config_; }
  // The path of a file of the folder; Io if it is not there, InvalidModel if it stands for one that
  // was not fetched.
  std::string file(const std::string& name) const;
  std::unique_ptr<Program> load(const std::string& name) const;
  // The decoder's file, or its stages joined.
  DecoderPrograms load_decoder() const;
  bool has(const std::string& name) const;
  std::string text(const std::string& name) const;  // all of a file

 private:
  std::string path_;
  MemoryFiles files_;
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
