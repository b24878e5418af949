// SPDX-License-Identifier: MIT
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file_map.h"
#include "cli/commands.h"
#include "cli/execution.h"
#include "cli/npy.h"
#include "llm/model/generator.h"
#include "llm/tokenizer/load.h"
#include "llm/tokenizer/stream.h"

namespace lathe::cli {
namespace {

using llm::Token;
using Seconds = std::chrono::duration<double>;
using tokenizer::DecodeStream;
using tokenizer::StopStrings;
using tokenizer::Tokenizer;

struct Arguments {
  std::string folder;
  std::string prompt;
  std::string file;
  std::vector<std::string> ids;
  std::string logits;
  std::string overlay;
  bool json = false;
  std::vector<std::string> search;  // a value per search option; empty: not given

  void declare(CommandLine& line) {
    line.positional("DIR", folder, "A folder with a genai_config.json.");
    line.text("--prompt,-p", prompt, "TEXT", "The prompt, as it is; otherwise standard input.");
    line.text("--file", file, "FILE", "Reads the prompt from a file.");
    line.texts("--ids", ids, "1,2,3", "The prompt's tokens; several times for several prompts.");
    line.text("--logits", logits, "FILE.npy", "Writes the first prompt's logits, a row per token.");
    line.text("--config", overlay, "JSON", "Merged into the folder's configuration.");
    line.flag("--json", json, "Prints one JSON object: ids, text, finish_reason, counts, rates.");
    const auto options = search::search_options();
    search.resize(options.size());
    for (size_t i = 0; i < options.size(); ++i) {
      std::string dashed(options[i].name);
      std::ranges::replace(dashed, '_', '-');
      const std::string names = dashed == options[i].name
                                    ? fmt::format("--{}", dashed)
                                    : fmt::format("--{},--{}", dashed, options[i].name);
      line.text(names, search[i], "VALUE", options[i].doc);
    }
    line.options({"target", "threads"});
  }

  void apply(search::SearchOptions& options) const {
    for (size_t i = 0; i < search.size(); ++i) {
      if (search[i].empty()) continue;
      set_search_option(options, search::search_options()[i].name, std::string_view(search[i]));
    }
  }
};

std::vector<Token> parse_ids(const std::string& text) {
  const auto json = nlohmann::json::parse("[" + text + "]", nullptr, false);
  std::vector<Token> ids;
  bool good = json.is_array();
  for (size_t i = 0; good && i < json.size(); ++i) {
    good = json[i].is_number_unsigned() && json[i].get<uint64_t>() <= 0x7fffffff;
    if (good) ids.push_back(json[i].get<Token>());
  }
  check(good, ErrorKind::invalid_argument, "--ids is '{}', expected tokens: 1,2,3",
        escape(text, 80));
  return ids;
}

std::string standard_input() {
  std::string text;
  std::array<char, 1 << 16> part;
  for (size_t count = 1; count > 0;) {
    count = std::fread(part.data(), 1, part.size(), stdin);
    text.append(part.data(), count);
  }
  return text;
}

std::vector<std::vector<Token>> prompts_of(const Arguments& arguments, const Tokenizer* tokenizer,
                                           const std::string& folder) {
  std::vector<std::vector<Token>> prompts;
  for (const std::string& ids : arguments.ids) prompts.push_back(parse_ids(ids));
  if (!prompts.empty()) return prompts;
  check(tokenizer != nullptr, ErrorKind::io, "'{}' has no tokenizer: give the prompt as --ids",
        escape(folder));
  std::string text = arguments.prompt;
  if (!arguments.file.empty()) text = std::string(FileMap::open(arguments.file)->text());
  if (text.empty() && arguments.file.empty()) text = standard_input();
  const tokenizer::Encoding encoding = tokenizer->encode(text);
  prompts.emplace_back(encoding.ids.begin(), encoding.ids.end());
  check(!prompts.back().empty(), ErrorKind::invalid_argument,
        "the prompt of {} bytes has no tokens", text.size());
  return prompts;
}

// What is seen of one sequence while it grows: its text, up to a stop string.
struct Stream {
  Stream(std::shared_ptr<const Tokenizer> tokenizer, const std::vector<std::string>& stops)
      : decode(std::move(tokenizer)), stop(stops) {}
  DecodeStream decode;
  StopStrings stop;
  size_t seen = 0;
  std::string text;

  // The text that these tokens add.
  std::string push(std::span<const Token> generated, std::span<const int64_t> ends) {
    std::string added;
    for (; seen < generated.size() && !stop.found(); ++seen) {
      const Token token = generated[seen];
      if (std::ranges::find(ends, int64_t{token}) != ends.end()) continue;
      added += stop.push(decode.step(static_cast<uint32_t>(token)));
    }
    text += added;
    return added;
  }
  std::string finish() {
    const std::string rest = stop.found() ? "" : stop.push(decode.finish()) + stop.finish();
    text += rest;
    return rest;
  }
};

struct Result {
  llm::Output output;
  std::string text;
  bool stopped = false;  // by a stop string
};

nlohmann::ordered_json to_json(const Result& result) {
  nlohmann::ordered_json json;
  const auto generated = result.output.generated();
  json["ids"] = std::vector<Token>(generated.begin(), generated.end());
  json["text"] = result.text;
  json["finish_reason"] = result.stopped ? "stop" : to_string(result.output.reason);
  json["score"] = result.output.score;
  json["prompt_tokens"] = result.output.prompt;
  json["new_tokens"] = generated.size();
  return json;
}

void write_logits(const llm::Decoder& decoder, const std::vector<Token>& prompt,
                  const std::string& path) {
  llm::Sequence sequence = decoder.new_sequence();
  const llm::StepRequest request{&sequence, prompt, true};
  FileWriter file(path);
  write_npy(decoder.step({&request, 1}, &interrupts()),
            [&](std::string_view part) { file.write(part); });
  file.commit();
}

}  // namespace

int generate(CommandLine& line) {
  Arguments arguments;
  arguments.declare(line);
  if (!line.parse()) return 0;

  ThreadPool pool(static_cast<int>(line.options().integer("threads")));
  llm::DecoderOptions options;
  options.target = compile_options(line.options()).target;
  options.pool = &pool;
  options.overlay = arguments.overlay;
  const auto begin = Clock::now();
  const auto decoder = std::make_shared<const llm::Decoder>(arguments.folder, options);
  std::shared_ptr<const Tokenizer> tokenizer;
  std::string tokenizer_folder = arguments.folder;
  if (!decoder->config().tokenizer_folder.empty())
    tokenizer_folder += "/" + decoder->config().tokenizer_folder;
  if (arguments.ids.empty() || file_exists(tokenizer_folder + "/tokenizer.json")) {
    tokenizer = tokenizer::load_tokenizer(tokenizer_folder);
  }
  const double load_seconds = Seconds(Clock::now() - begin).count();
  search::SearchOptions search = decoder->config().search;
  arguments.apply(search);
  const std::vector<std::vector<Token>> prompts =
      prompts_of(arguments, tokenizer.get(), arguments.folder);
  if (!arguments.logits.empty()) write_logits(*decoder, prompts.front(), arguments.logits);

  llm::Generator generator(decoder);
  for (const std::vector<Token>& prompt : prompts) generator.add(prompt, search);
  const auto& ends = decoder->config().end_tokens;
  const bool live = !arguments.json && prompts.size() == 1 && search.num_return_sequences == 1 &&
                    search.num_beams == 1 && tokenizer != nullptr;
  std::optional<Stream> stream;
  if (tokenizer != nullptr) stream.emplace(tokenizer, search.stop_strings);
  const auto start = Clock::now();
  std::optional<double> first_seconds;
  bool more = true;
  while (more) {
    more = generator.generate_next_token(&interrupts());
    if (!first_seconds) first_seconds = Seconds(Clock::now() - start).count();
    if (prompts.size() != 1 || search.num_beams > 1 || search.num_return_sequences > 1 || !stream)
      continue;
    const std::string added = stream->push(generator.outputs(0)[0].generated(), ends);
    if (live && !added.empty()) {
      line.out().write(added);
      line.out().flush();
    }
    more = more && !stream->stop.found();
  }
  const double seconds = Seconds(Clock::now() - start).count();
  std::vector<Result> results;
  int64_t new_tokens = 0;
  for (size_t prompt = 0; prompt < prompts.size(); ++prompt) {
    for (const llm::Output& output : generator.outputs(prompt)) {
      Result result{output, "", false};
      if (tokenizer != nullptr) {
        Stream whole(tokenizer, search.stop_strings);
        whole.push(output.generated(), ends);
        whole.finish();
        result.text = whole.text;
        result.stopped = whole.stop.found().has_value();
      }
      new_tokens += static_cast<int64_t>(output.generated().size());
      results.push_back(std::move(result));
    }
  }
  if (live) {
    line.out().write(stream->finish() + "\n");
    return 0;
  }
  if (!arguments.json) {
    for (const Result& result : results) line.out().write(result.text + "\n");
    return 0;
  }
  nlohmann::ordered_json json = to_json(results.front());
  json["sequences"] = nlohmann::ordered_json::array();
  for (const Result& result : results) json["sequences"].push_back(to_json(result));
  json["load_seconds"] = load_seconds;
  json["first_token_seconds"] = first_seconds.value_or(0);
  json["tokens_per_second"] =
      seconds > first_seconds.value_or(0)
          ? static_cast<double>(new_tokens - static_cast<int64_t>(results.size())) /
                (seconds - *first_seconds)
          : 0;
  json["rows_run"] = generator.rows_run();
  line.out().write(json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  return 0;
}

}  // namespace lathe::cli
