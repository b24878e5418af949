// SPDX-License-Identifier: MIT
#include "cli/language_model.h"

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_map.h"
#include "base/log.h"
#include "base/os_system.h"
#include "cli/progress.h"
#include "import/checkpoint/checkpoint.h"
#include "llm/model/compiled_model.h"
#include "llm/tokenizer/load.h"

namespace lathe::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxPromptBytes = size_t{256} << 20;
std::string dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

FolderExecution execution_of_folder(const llm::GenaiConfig& config, const std::string& folder,
                                    const Options& options) {
  FolderExecution how;
  how.threads = options.origin("threads").empty() ? config.threads()
                                                  : static_cast<int>(options.integer("threads"));
  if (options.text("target") == kAutoTarget) {
    how.target = choose_target(config, folder);
  } else {
    how.target.target = how.target.encoder = compile_options(options).target;
  }
  return how;
}

FolderExecution execution_of_folder(const llm::ModelFolder& folder, const Options& options) {
  FolderExecution how = execution_of_folder(folder.config(), folder.path(), options);
  if (!how.target.warning.empty()) log_warning(how.target.warning);
  return how;
}

FolderExecution execution_of_folder(const LanguageModelArguments& arguments,
                                    const Options& options) {
  return execution_of_folder(llm::ModelFolder(arguments.folder, arguments.overlay), options);
}

bool is_language_model(const std::string& path) {
  return is_folder(path) || checkpoint::is_gguf_file(path) ||
         llm::open_compiled_model(path) != nullptr;
}

void declare_overlay(CommandLine& line, std::string& overlay) {
  line.text("--config", overlay, "JSON", "JSON to merge into a model folder's genai_config.json.");
}

void SearchArguments::declare(CommandLine& line) {
  const auto options = search::search_options();
  values_.resize(options.size());
  for (size_t i = 0; i < options.size(); ++i) {
    std::string dashed(options[i].name);
    std::ranges::replace(dashed, '_', '-');
    const std::string names = dashed == options[i].name
                                  ? fmt::format("--{}", dashed)
                                  : fmt::format("--{},--{}", dashed, options[i].name);
    line.text(names, values_[i], "VALUE", options[i].doc);
  }
}

void SearchArguments::apply(search::SearchOptions& options) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].empty()) continue;
    set_search_option(options, search::search_options()[i].name, std::string_view(values_[i]));
  }
}

void ChatArguments::declare(CommandLine& line) {
  line.text("--system", system, "TEXT", "System prompt.");
  line.texts("--template-arg", arguments, "NAME=VALUE",
             "Variable of the chat template: JSON, else a string.");
}

std::string ChatArguments::variables() const {
  if (arguments.empty()) return {};
  Json object = Json::object();
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    check(equals != std::string::npos && equals > 0, ErrorKind::invalid_argument,
          "--template-arg is '{}', expected NAME=VALUE", escape(argument));
    const std::string text = argument.substr(equals + 1);
    const Json value = Json::parse(text, nullptr, false);
    object[argument.substr(0, equals)] = value.is_discarded() ? Json(text) : value;
  }
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void LanguageModelArguments::declare(CommandLine& line) {
  line.model("DIR", folder, "Model folder (ONNX Runtime GenAI, Hugging Face) or GGUF file.");
  declare_overlay(line, overlay);
  line.flag("--verbose,-v", verbose, "Prints effective settings and progress.");
  line.options(
      {"target", "compute", "quantize", "threads", "pin-threads", "memory-limit", "timeout"});
}

LanguageModel::LanguageModel(const LanguageModelArguments& arguments, const Options& options)
    : LanguageModel(arguments, options, llm::ModelFolder(arguments.folder, arguments.overlay)) {}

LanguageModel::LanguageModel(const LanguageModelArguments& arguments, const Options& options,
                             llm::ModelFolder&& folder)
    : LanguageModel(arguments, options, folder, execution_of_folder(folder, options)) {}

LanguageModel::LanguageModel(const LanguageModelArguments& arguments, const Options& options,
                             llm::ModelFolder& folder, const FolderExecution& execution)
    : pool_(execution.threads, options.boolean("pin-threads")) {
  const auto begin = Clock::now();
  Progress progress(arguments.verbose);
  progress.show(fmt::format("opening '{}'", escape(arguments.folder)));
  llm::DecoderOptions decoder;
  target_ = decoder.target = execution.target.target;
  decoder.encoder_target = execution.target.encoder;
  decoder.compute = compute_ = compute_option(options);
  decoder.quantize = quantize_option(options);
  decoder.pool = &pool_;
  decoder.passes = pass_options(options);
  decoder.memory_limit = options.integer("memory-limit");
  decoder.measured = [&](const llm::ModelSize& size) {
    progress.show(fmt::format("memory: weights {}, KV cache {} per token; {} available",
                              llm::bytes_text(size.all_weight_bytes()),
                              llm::bytes_text(size.token_bytes),
                              llm::bytes_text(system_memory().available_bytes)));
  };
  beside_ = folder.beside();
  auto tokenizer = tokenizer::start_loading_tokenizer(*beside_);
  decoder_ = std::make_shared<const llm::Decoder>(std::move(folder), decoder);
  tokenizer_ = tokenizer.get();
  load_seconds_ = std::chrono::duration<double>(Clock::now() - begin).count();
}

const tokenizer::Tokenizer& LanguageModel::need_tokenizer(std::string_view advice) const {
  check(tokenizer_ != nullptr, ErrorKind::io, "'{}' has no tokenizer{}",
        escape(beside_->path().empty() ? decoder_->folder() : beside_->path()), advice);
  return *tokenizer_;
}

templates::ChatTemplates LanguageModel::chat_templates() const {
  return templates::ChatTemplates::load(*beside_);
}

std::string LanguageModel::settings(const search::SearchOptions& options) const {
  const llm::GenaiConfig& config = decoder_->config();
  std::string text =
      fmt::format("model {}: vocabulary {}, context {}, end tokens {}\n", config.type,
                  decoder_->vocabulary(), config.context_length, fmt::join(config.end_tokens, " "));
  text += fmt::format("target {}, threads {}, loaded in {:.2f} s\n", decoder_->plan().target,
                      threads(), load_seconds_);
  text += fmt::format("memory: {}\n", to_string(decoder_->size(), config.context_length));
  text += fmt::format("compute: {}\n", to_string(compute_));
  const nlohmann::json defaults = search::search_options_json({});
  const nlohmann::json values = search::search_options_json(options);
  for (const auto& [name, value] : values.items()) {
    text += fmt::format("{} = {}{}\n", name, dump(value),
                        value == defaults[name] ? "" : "  (not the default)");
  }
  return text;
}

std::vector<llm::Token> arbitrary_tokens(int64_t count, int64_t vocabulary, int64_t sequence) {
  std::vector<llm::Token> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<llm::Token>((i * 7919 + 13 + sequence * 101) % vocabulary));
  return tokens;
}

std::string read_standard_input() {
  std::string text;
  std::array<char, 1 << 16> part;
  for (size_t count = 1; count > 0;) {
    count = std::fread(part.data(), 1, part.size(), stdin);
    text.append(part.data(), count);
    check(text.size() <= kMaxPromptBytes, ErrorKind::invalid_argument,
          "standard input exceeds {} bytes", kMaxPromptBytes);
  }
  return text;
}

}  // namespace lathe::cli
