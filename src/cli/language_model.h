// SPDX-License-Identifier: MIT
// What the commands share that talk to the language model of a folder.
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

// The search options as flags, '-' and '_' alike.
class SearchArguments {
 public:
  void declare(CommandLine& line);
  // Those that were given.
  void apply(search::SearchOptions& options) const;

 private:
  std::vector<std::string> values_;  // one per option of the table; empty: not given
};

// How messages become a prompt.
struct ChatArguments {
  std::string system;
  std::vector<std::string> arguments;  // NAME=VALUE

  void declare(CommandLine& line);
  // The template's variables, a JSON object; a value that is no JSON is a text.
  std::string variables() const;
};

struct LanguageModelArguments {
  std::string folder{};
  std::string overlay{};
  bool verbose = false;

  void declare(CommandLine& line);
};

// Where a folder runs: what the options say, else what the folder's configuration makes the best of
// what is here.
struct FolderExecution {
  llm::TargetChoice target;
  int threads = 0;
};
FolderExecution execution_of_folder(const llm::GenaiConfig& config, const std::string& folder,
                                    const Options& options);
// The same, with a warning if the folder wants a device that is not here.
FolderExecution execution_of_folder(const LanguageModelArguments& arguments,
                                    const Options& options);
// "--config", a JSON text that is merged into a folder's configuration.
void declare_overlay(CommandLine& line, std::string& overlay);
// InvalidArgument if an overlay is given with a `model` that is no folder.
void check_no_overlay(const std::string& overlay, const std::string& model);

// A model folder opened, with the threads it runs on. Says on standard error what it is doing if
// that is a terminal, or if much is to be said.
class LanguageModel {
 public:
  LanguageModel(const LanguageModelArguments& arguments, const Options& options)
      : LanguageModel(arguments, options, execution_of_folder(arguments, options)) {}

  const std::shared_ptr<const llm::Decoder>& decoder() const { return decoder_; }
  // Null if the folder has none.
  const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer() const { return tokenizer_; }
  const tokenizer::Tokenizer& need_tokenizer(std::string_view otherwise) const;
  templates::ChatTemplates chat_templates() const;
  const std::shared_ptr<const Target>& target() const { return target_; }
  Compute compute() const { return compute_; }
  int threads() const { return pool_.threads(); }
  double load_seconds() const { return load_seconds_; }
  // Lines about model, machine and search.
  std::string settings(const search::SearchOptions& options) const;

 private:
  LanguageModel(const LanguageModelArguments& arguments, const Options& options,
                const FolderExecution& execution);
  ThreadPool pool_;
  std::shared_ptr<const Target> target_;
  std::shared_ptr<const llm::Decoder> decoder_;
  std::string tokenizer_folder_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  double load_seconds_ = 0;
  Compute compute_ = Compute::as_model;
};

std::string read_standard_input();

}  // namespace lathe::cli
