// SPDX-License-Identifier: MIT
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_map.h"
#include "cli/commands.h"
#include "cli/language_model.h"
#include "cli/limits.h"
#include "cli/npy.h"
#include "cli/outputs.h"
#include "plan/packing_source.h"

namespace lathe::cli {
namespace {

using llm::Token;
using Seconds = std::chrono::duration<double>;
using tokenizer::Tokenizer;

double seconds_since(Clock::time_point begin) { return Seconds(Clock::now() - begin).count(); }

struct Arguments {
  LanguageModelArguments model;
  SearchArguments search;
  ChatArguments chat;
  std::string prompt;
  bool has_prompt = false;
  std::string file;
  std::vector<std::string> ids;
  std::vector<std::string> inputs;  // NAME=FILE.npy
  std::string logits;
  bool is_chat = false;
  bool json = false;
  bool rates = false;

  void declare(CommandLine& line) {
    model.declare(line);
    line.text("--prompt,-p", prompt, "TEXT",
              "Prompt text, which may be empty. Default: standard input.");
    line.text("--file", file, "FILE", "File with the prompt text.");
    line.texts("--ids", ids, "1,2,3",
               "Token ids of the prompt; repeat for several prompts. A model without a tokenizer "
               "prints ids.");
    line.texts(
        "--input", inputs, "NAME=FILE.npy",
        "Input of the model other than tokens, such as an encoder's audio_features: one item per "
        "prompt, or one for all.");
    line.flag("--chat", is_chat, "Renders the prompt as a user message by the chat template.");
    chat.declare(line);
    line.text("--logits", logits, "FILE.npy",
              "Writes the first prompt's logits, f32 [tokens, vocabulary].");
    line.flag("--json", json, "Prints one JSON object: ids, text, finish_reason, counts, rates.");
    line.flag("--rates", rates,
              "Prints tokens per second after the text, and their share of the memory bandwidth.");
    search.declare(line);
  }

  // After parsing: flags that exclude or require each other.
  void check_together(const CommandLine& line) {
    has_prompt = line.has("--prompt");
    check(logits.empty() || logits.ends_with(".npy"), ErrorKind::invalid_argument,
          "--logits is '{}', expected a name that ends in .npy", escape(logits));
    if (!logits.empty()) check_output_file("--logits", logits, {});
    check(is_chat || (chat.system.empty() && chat.arguments.empty()), ErrorKind::invalid_argument,
          "{} requires --chat", chat.system.empty() ? "--template-arg" : "--system");
    const int sources = (has_prompt ? 1 : 0) + (file.empty() ? 0 : 1) + (ids.empty() ? 0 : 1);
    check(sources <= 1, ErrorKind::invalid_argument,
          "got {} prompts: use one of --prompt, --file and --ids", sources);
    check(!rates || (!json && ids.size() < 2), ErrorKind::invalid_argument,
          "--rates is for the text of one prompt{}", json ? "; --json has rates" : "");
    check(!is_chat || ids.empty(), ErrorKind::invalid_argument,
          "--chat requires text, got --ids '{}'", ids.empty() ? "" : escape(ids.front(), 80));
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
  check(good && !ids.empty(), ErrorKind::invalid_argument,
        "--ids is '{}', expected token ids such as 1,2,3", escape(text, 80));
  return ids;
}

std::vector<std::vector<Token>> prompts_of(const Arguments& arguments, const LanguageModel& model) {
  std::vector<std::vector<Token>> prompts;
  for (const std::string& ids : arguments.ids) prompts.push_back(parse_ids(ids));
  if (!prompts.empty()) return prompts;
  const Tokenizer& tokenizer = model.need_tokenizer("; use --ids");
  std::string text = arguments.prompt;
  if (!arguments.file.empty()) text = std::string(FileMap::open(arguments.file)->text());
  std::string origin =
      arguments.file.empty() ? "--prompt" : fmt::format("--file '{}'", escape(arguments.file));
  if (!arguments.has_prompt && arguments.file.empty()) {
    text = read_standard_input();
    origin = "standard input";
  }
  tokenizer::EncodeOptions options;
  if (arguments.is_chat) {
    std::vector<llm::ChatMessage> messages;
    if (!arguments.chat.system.empty()) messages.push_back({"system", arguments.chat.system});
    messages.push_back({"user", text});
    text = render_messages(model.chat_templates(), messages, arguments.chat.variables());
    options.add_special_tokens = false;  // the template renders them
  }
  try {
    const tokenizer::Encoding encoding = tokenizer.encode(text, options);
    prompts.emplace_back(encoding.ids.begin(), encoding.ids.end());
    check(!prompts.back().empty(), ErrorKind::invalid_argument,
          "the prompt of {} bytes has no tokens", text.size());
  } catch (Error& error) {
    error.note(fmt::format("in the prompt from {}", origin));
    throw;
  }
  return prompts;
}

std::vector<std::pair<std::string, Tensor>> read_inputs(const std::vector<std::string>& given) {
  std::vector<std::pair<std::string, Tensor>> inputs;
  for (const std::string& input : given) {
    const size_t equals = input.find('=');
    check(equals != std::string::npos && equals > 0 && equals + 1 < input.size(),
          ErrorKind::invalid_argument, "--input is '{}', expected NAME=FILE.npy", escape(input));
    const auto file = FileMap::open(input.substr(equals + 1));
    inputs.emplace_back(input.substr(0, equals),
                        read_npy(file->text(), file->path(), std::nullopt, file));
  }
  return inputs;
}

nlohmann::ordered_json to_json(const llm::Output& output) {
  nlohmann::ordered_json json;
  const auto generated = output.generated();
  json["ids"] = std::vector<Token>(generated.begin(), generated.end());
  json["text"] = output.text;
  json["finish_reason"] = to_string(output.reason);
  json["score"] = output.score;
  json["prompt_tokens"] = output.prompt;
  json["new_tokens"] = generated.size();
  for (size_t i = 0; i < output.choices.size(); ++i) {
    nlohmann::ordered_json choice = {{"id", generated[i]},
                                     {"log_probability", output.choices[i].log_probability},
                                     {"likeliest", nlohmann::ordered_json::array()}};
    for (const auto& [token, log_probability] : output.choices[i].most_likely) {
      choice["likeliest"].push_back({{"id", token}, {"log_probability", log_probability}});
    }
    json["log_probabilities"].push_back(std::move(choice));
  }
  return json;
}

void write_logits(const llm::Decoder& decoder, const std::vector<Token>& prompt,
                  const std::string& path) {
  llm::Sequence sequence = decoder.new_sequence();
  const llm::StepRequest request{&sequence, prompt, llm::LogitPositions::all()};
  FileWriter file(path);
  write_npy(decoder.step({&request, 1}, &interrupts()),
            [&](std::string_view part) { file.write(part); });
  file.commit();
}

// Seconds until every prompt has its first token, and seconds after that.
struct Times {
  double first = 0;
  double rest = 0;
};

// Ids without a tokenizer.
std::string text_of(const llm::Output& output, const LanguageModel& model) {
  return model.tokenizer() != nullptr ? output.text
                                      : fmt::format("{}", fmt::join(output.generated(), ","));
}

// Generates all tokens. `out`: writes the first prompt's text as it is generated; may be null.
Times run_to_end(llm::Generator& generator, std::optional<Clock::time_point> deadline,
                 Output* out) {
  const auto begin = Clock::now();
  Times times;
  size_t written = 0;
  bool is_first = true;
  for (bool more = true; more;) {
    more = generator.generate_next_token(&interrupts(), deadline);
    if (is_first) times.first = seconds_since(begin);
    is_first = false;
    if (out == nullptr) continue;
    const std::string_view text = generator.text(0);
    if (text.size() == written) continue;
    out->write(text.substr(written));
    out->flush();
    written = text.size();
  }
  times.rest = seconds_since(begin) - times.first;
  return times;
}

nlohmann::ordered_json report(const std::vector<llm::Output>& outputs, const Times& times,
                              const LanguageModel& model, const llm::Generator& generator) {
  nlohmann::ordered_json json = to_json(outputs.front());
  json["sequences"] = nlohmann::ordered_json::array();
  size_t prompt_tokens = 0;
  size_t later_tokens = 0;
  for (const llm::Output& output : outputs) {
    json["sequences"].push_back(to_json(output));
    later_tokens += std::max<size_t>(output.generated().size(), 1) - 1;
  }
  for (size_t i = 0; i < generator.prompts(); ++i) {
    prompt_tokens += generator.outputs(i).front().prompt;
  }
  const auto rate = [](size_t count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0;
  };
  json["load_seconds"] = model.load_seconds();
  json["first_token_seconds"] = times.first;
  json["prompt_tokens_per_second"] = rate(prompt_tokens, times.first);
  json["tokens_per_second"] = rate(later_tokens, times.rest);
  json["rows_run"] = generator.tokens_run();
  return json;
}

// Rates of one prompt with one answer. Decoding a token reads all weights and the KV cache, so the
// memory bandwidth limits it.
std::string rates_text(const llm::Output& output, const Times& times, const LanguageModel& model) {
  const size_t tokens = output.generated().size();
  std::string text = fmt::format("{} tokens after a prompt of {}: the first after {:.2f} s", tokens,
                                 output.prompt, model.load_seconds() + times.first);
  if (tokens < 2 || times.rest <= 0) return text + "\n";
  const double rate = static_cast<double>(tokens - 1) / times.rest;
  const llm::ModelSize& size = model.decoder()->size();
  const auto length = static_cast<int64_t>(output.prompt + tokens / 2);
  const int64_t weights = llm::step_weight_bytes(
      *model.decoder()->plan().program, dynamic_cast<const PackingSource*>(model.target().get()));
  const auto bytes = static_cast<double>(weights + size.token_bytes * length);
  ThreadPool pool(model.threads());
  return text +
         fmt::format(", then {:.0f} tokens/s, {:.0f} % of what the memory allows\n", rate,
                     100 * rate * bytes / measure_bandwidth(model.target(), {}, weights, pool));
}

}  // namespace

int generate(CommandLine& line) {
  Arguments arguments;
  arguments.declare(line);
  if (!line.parse()) return 0;
  arguments.check_together(line);
  const auto deadline = deadline_of(line.options());

  const LanguageModel model(arguments.model, line.options());
  search::SearchOptions search = model.decoder()->config().search;
  arguments.search.apply(search);
  if (arguments.model.verbose) write_error_text(model.settings(search));
  const std::vector<std::vector<Token>> prompts = prompts_of(arguments, model);
  if (!arguments.logits.empty()) write_logits(*model.decoder(), prompts.front(), arguments.logits);

  llm::Generator generator(model.decoder(), model.tokenizer());
  const auto inputs = read_inputs(arguments.inputs);
  for (const std::vector<Token>& prompt : prompts) {
    generator.add(inputs.empty() ? prompt : std::vector<Token>(), search);
  }
  for (const auto& [name, tensor] : inputs) {
    // A single item is the input of every prompt.
    const bool single = tensor.rank() > 0 && tensor.dims()[0] == 1;
    if (!single) generator.set_model_input(name, tensor, search);
    for (size_t i = 0; single && i < prompts.size(); ++i) {
      generator.set_model_input(i, name, tensor);
    }
  }
  for (size_t i = 0; !inputs.empty() && i < prompts.size(); ++i) {
    generator.append_tokens(i, prompts[i]);
  }
  const bool single =
      prompts.size() == 1 && search.num_return_sequences == 1 && search.num_beams == 1;
  const bool live = !arguments.json && single && model.tokenizer() != nullptr;
  const Times times = run_to_end(generator, deadline, live ? &line.out() : nullptr);
  std::vector<llm::Output> outputs;
  for (size_t prompt = 0; prompt < prompts.size(); ++prompt) {
    for (llm::Output& output : generator.outputs(prompt)) outputs.push_back(std::move(output));
  }
  if (!arguments.json) {
    if (live) line.out().write("\n");
    for (const llm::Output& output : outputs) {
      if (!live) line.out().write(text_of(output, model) + "\n");
    }
    if (arguments.rates && single) line.out().write(rates_text(outputs.front(), times, model));
    return 0;
  }
  line.out().write(report(outputs, times, model, generator)
                       .dump(1, ' ', false, nlohmann::json::error_handler_t::replace) +
                   "\n");
  return 0;
}

}  // namespace lathe::cli
