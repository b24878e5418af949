// SPDX-License-Identifier: MIT
// The commands tokenize and detokenize.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/file_map.h"
#include "base/thread_pool.h"
#include "cli/commands.h"
#include "cli/input_lines.h"
#include "llm/tokenizer/load.h"

namespace lathe::cli {
namespace {

using tokenizer::Tokenizer;

// Prints `transform` of each line, computed in parallel.
template <class F>
void map_lines(CommandLine& line, F&& transform) {
  InputLines input;
  ThreadPool pool;
  size_t done = 0;
  for (auto lines = input.next(); !lines.empty(); lines = input.next()) {
    std::vector<std::string> results(lines.size());
    parallel_for(&pool, static_cast<int64_t>(lines.size()), 16, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        try {
          results[i] = transform(lines[i]);
        } catch (Error& error) {
          error.note(fmt::format("in line {} of standard input", done + i + 1));
          throw;
        }
      }
    });
    done += lines.size();
    for (const std::string& result : results) {
      line.out().write(result);
      line.out().write("\n");
    }
  }
}

std::string ids_text(const std::vector<uint32_t>& ids) {
  return fmt::format("[{}]", fmt::join(ids, ", "));
}

std::vector<uint32_t> read_ids(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<uint32_t> ids;
  bool good = json.is_array();
  for (size_t i = 0; good && i < json.size(); ++i) {
    good = json[i].is_number_unsigned() && json[i].get<uint64_t>() < tokenizer::kNoId;
    if (good) ids.push_back(json[i].get<uint32_t>());
  }
  check(good, ErrorKind::invalid_argument, "'{}' is not a JSON array of token ids",
        escape(text, 80));
  return ids;
}

struct TokenizerArguments {
  std::string path;
  tokenizer::LoadOptions options;
  bool lines = false;

  void declare(CommandLine& line, std::string_view each) {
    line.model("FOLDER_OR_FILE", path,
               "Model folder, or its tokenizer.json, .model, .tiktoken, vocab.json, "
               "vocab.txt or GGUF file.");
    line.flag("--lines", lines, each);
    line.text("--pattern", options.pattern, "REGEX",
              "Pre-tokenizer regex for .tiktoken files of an unknown encoding.");
  }

  // Runs after parsing.
  void check_pattern() const {
    const auto is_tiktoken = [](std::string_view name) { return name.ends_with(".tiktoken"); };
    const bool applies =
        is_folder(path) ? std::ranges::any_of(list_folder(path), is_tiktoken) : is_tiktoken(path);
    check(options.pattern.empty() || applies, ErrorKind::invalid_argument,
          "--pattern does not apply to '{}', which has no .tiktoken file", escape(path));
  }
};

}  // namespace

int tokenize(CommandLine& line) {
  TokenizerArguments arguments;
  bool has_no_special_tokens = false;
  bool replace = false;
  arguments.declare(line, "Encodes each line to one array of ids.");
  line.flag("--bare", has_no_special_tokens, "Adds no special tokens.");
  line.flag("--replace-invalid", replace, "Replaces invalid UTF-8 by U+FFFD.");
  if (!line.parse()) return 0;
  arguments.check_pattern();

  const auto tokenizer = tokenizer::load_tokenizer(arguments.path, arguments.options);
  tokenizer::EncodeOptions options;
  options.add_special_tokens = !has_no_special_tokens;
  options.replace_invalid = replace;
  const auto encode = [&](std::string_view text) {
    return ids_text(tokenizer->encode(text, options).ids);
  };
  if (arguments.lines) {
    map_lines(line, encode);
  } else {
    InputLines input;
    line.out().write(encode(input.rest()) + "\n");
  }
  return 0;
}

int detokenize(CommandLine& line) {
  TokenizerArguments arguments;
  bool keep = false;
  arguments.declare(line, "Decodes the array of ids in each line.");
  line.flag("--special-tokens", keep, "Prints special tokens, too.");
  if (!line.parse()) return 0;
  arguments.check_pattern();

  const auto tokenizer = tokenizer::load_tokenizer(arguments.path, arguments.options);
  const auto decode = [&](std::string_view text) {
    const std::vector<uint32_t> ids = read_ids(text);
    tokenizer->check_ids(ids);
    return tokenizer->decode(ids, !keep);
  };
  if (arguments.lines) {
    map_lines(line, decode);
  } else {
    InputLines input;
    line.out().write(decode(input.rest()));
  }
  return 0;
}

}  // namespace lathe::cli
