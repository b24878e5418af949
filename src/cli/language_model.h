// SPDX-License-Identifier: MIT
// A language model opened from its folder, and the flags of its commands.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "cli/execution.h"
#include "llm/model/chat.h"
#include "llm/model/choose_target.h"
#include "llm/model/generator.h"
#include "llm/template/chat_template.h"
#include "llm/tokenizer/tokenizer.h"

namespace lathe::cli {

// The search options as flags; '-' and '_' are equivalent.
class SearchArguments {
 public:
  void declare(CommandLine& line);
  // Sets the options whose flags are present.
  void apply(search::SearchOptions& options) const;

 private:
  std::vector<std::string> values_;  // one per option of the table; empty: absent
};

// The flags of chat templates.
struct ChatArguments {
  std::string system;
  std::vector<std::string> arguments;  // NAME=VALUE

  void declare(CommandLine& line);
  // The template's variables as a JSON object; a value that is not JSON is a string.
  std::string variables() const;
};

struct LanguageModelArguments {
  std::string folder{};
  std::string overlay{};
  bool verbose = false;

  void declare(CommandLine& line);
};

// Target and threads of a folder: from the options, else from the folder's configuration.
struct FolderExecution {
  llm::TargetChoice target;
  int threads = 0;
};
FolderExecution execution_of_folder(const llm::GenaiConfig& config, const std::string& folder,
                                    const Options& options);
// Warns if the folder requests a device that is not present.
FolderExecution execution_of_folder(const LanguageModelArguments& arguments,
                                    const Options& options);
// True for a model folder and for a GGUF file.
bool is_language_model(const std::string& path);
// Declares --config, JSON that is merged into the folder's genai_config.json.
void declare_overlay(CommandLine& line, std::string& overlay);

// A model folder opened for execution, with its threads. Shows progress on standard error if that
// is a terminal or with --verbose.
class LanguageModel {
 public:
  LanguageModel(const LanguageModelArguments& arguments, const Options& options);

  const std::shared_ptr<const llm::Decoder>& decoder() const { return decoder_; }
  // Null if the folder has no tokenizer.
  const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer() const { return tokenizer_; }
  // Io ending with `advice` if the folder has no tokenizer.
  const tokenizer::Tokenizer& need_tokenizer(std::string_view advice) const;
  templates::ChatTemplates chat_templates() const;
  const std::shared_ptr<const Target>& target() const { return target_; }
  Compute compute() const { return compute_; }
  int threads() const { return pool_.threads(); }
  double load_seconds() const { return load_seconds_; }
  // The effective settings of model, machine and search, one a line.
  std::string settings(const search::SearchOptions& options) const;

 private:
  LanguageModel(const LanguageModelArguments& arguments, const Options& options,
                llm::ModelFolder&& folder);
  // Moves from `folder`.
  LanguageModel(const LanguageModelArguments& arguments, const Options& options,
                llm::ModelFolder& folder, const FolderExecution& execution);
  ThreadPool pool_;
  std::shared_ptr<const Target> target_;
  std::shared_ptr<const llm::Decoder> decoder_;
  std::optional<Folder> beside_;  // of the tokenizer and the chat template
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  double load_seconds_ = 0;
  Compute compute_ = Compute::as_model;
};

// Other tokens for each sequence, so that no two share a prefix.
std::vector<llm::Token> arbitrary_tokens(int64_t count, int64_t vocabulary, int64_t sequence);

std::string read_standard_input();

}  // namespace lathe::cli
