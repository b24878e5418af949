// SPDX-License-Identifier: MIT
// Runs decoders on request: one JSON object per line in, one out; logits go to files.
#include <algorithm>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file_map.h"
#include "base/thread_pool.h"
#include "llm/model/generator.h"
#include "llm/model/sequence_tensors.h"
#include "targets/target.h"

using lathe::llm::Decoder;
using lathe::llm::Token;
using Json = nlohmann::json;

namespace {

// Keeps the last model open.
struct Opened {
  std::string key;
  std::unique_ptr<lathe::ThreadPool> pool;
  std::shared_ptr<const Decoder> decoder;
};

std::shared_ptr<const Decoder> open(Opened& opened, const Json& q) {
  const auto folder = q.at("folder").get<std::string>();
  const auto target = q.value("target", std::string("ref"));
  const int threads = q.value("threads", 1);
  const auto overlay = q.value("overlay", std::string());
  const auto compute = q.value("compute", std::string("as_model"));
  const auto quantize = q.value("quantize", std::string("none"));
  const std::string key = Json{folder, target, threads, overlay, compute, quantize}.dump();
  if (opened.key == key) return opened.decoder;
  opened = {};
  lathe::llm::DecoderOptions options;
  opened.pool = std::make_unique<lathe::ThreadPool>(threads);
  options.pool = opened.pool.get();
  options.target = lathe::find_target(target);
  options.overlay = overlay;
  options.compute = lathe::parse_compute(compute, "compute");
  options.quantize = lathe::parse_weight_quantisation(quantize, "quantize");
  opened.decoder = std::make_shared<const Decoder>(folder, options);
  opened.key = key;
  return opened.decoder;
}

// Inputs beside tokens: f32 or another type, each in its own file.
lathe::llm::NamedTensors inputs_of(const Json& q) {
  lathe::llm::NamedTensors inputs;
  const Json all = q.value("inputs", Json::object());
  for (const auto& [name, given] : all.items()) {
    const auto type = lathe::element_type_from_name(given.value("type", std::string("f32")));
    lathe::Tensor tensor(type.value(), given.at("dims").get<lathe::Dims>());
    const auto map = lathe::FileMap::open(given.at("file").get<std::string>());
    const std::string_view bytes = map->text();
    lathe::check(static_cast<int64_t>(bytes.size()) == tensor.byte_size(),
                 lathe::ErrorKind::invalid_argument, "input '{}' has {} bytes, expected {}", name,
                 bytes.size(), tensor.byte_size());
    std::memcpy(tensor.data(), bytes.data(), bytes.size());
    inputs.emplace(name, std::move(tensor));
  }
  return inputs;
}

// Logits of every token of every prompt. Prompts run in parts of the given sizes, the last of which
// repeats (without sizes: unsplit); either a part of each in one step, or each prompt alone.
// `back`: runs the prompts, rewinds to this many tokens, and returns the rest. `states`: path of
// the first prompt's states in the file's layout, each by its present name.
Json logits(const Decoder& decoder, const Json& q) {
  const auto prompts = q.at("tokens").get<std::vector<std::vector<Token>>>();
  const auto parts = q.value("parts", std::vector<size_t>{});
  const bool together = q.value("together", true);
  std::vector<lathe::llm::Sequence> sequences(prompts.size(), decoder.new_sequence());
  const Json each =
      q.value("each", Json::array());  // inputs of each prompt; otherwise the same for all
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto inputs = inputs_of(i < each.size() ? Json{{"inputs", each[i]}} : q);
    if (!inputs.empty()) decoder.encode(sequences[i], inputs);
  }
  std::vector<std::vector<float>> found(prompts.size());
  const auto step = [&](std::span<const lathe::llm::StepRequest> requests) {
    const lathe::Tensor values = decoder.step(requests);
    const auto* at = values.as<float>();
    for (const lathe::llm::StepRequest& request : requests) {
      const auto count = request.tokens.size() * static_cast<size_t>(decoder.vocabulary());
      auto& own = found[static_cast<size_t>(request.sequence - sequences.data())];
      own.insert(own.end(), at, at + count);
      at += count;
    }
  };
  const auto back = q.value("back", int64_t{0});
  for (size_t i = 0; i < prompts.size() && back > 0; ++i) {
    const lathe::llm::StepRequest request{&sequences[i], prompts[i]};
    decoder.step({&request, 1});
    sequences[i].truncate(back);
  }
  for (size_t part = 0;; ++part) {
    std::vector<lathe::llm::StepRequest> requests;
    for (size_t i = 0; i < prompts.size(); ++i) {
      auto tokens =
          std::span<const Token>(prompts[i]).subspan(static_cast<size_t>(sequences[i].length()));
      if (tokens.empty()) continue;
      if (!parts.empty()) {
        tokens = tokens.first(std::min(parts[std::min(part, parts.size() - 1)], tokens.size()));
      }
      requests.push_back({&sequences[i], tokens, lathe::llm::LogitPositions::all()});
      if (!together) {
        step(requests);
        requests.clear();
      }
    }
    if (!requests.empty()) step(requests);
    if (std::ranges::all_of(sequences, [&](const lathe::llm::Sequence& sequence) {
          const auto i = static_cast<size_t>(&sequence - sequences.data());
          return static_cast<size_t>(sequence.length()) == prompts[i].size();
        }))
      break;
  }
  lathe::FileWriter file(q.at("logits").get<std::string>());
  for (const std::vector<float>& own : found) file.write(std::as_bytes(std::span(own)));
  file.commit();
  Json states = Json::object();
  if (q.contains("states")) {
    for (const lathe::llm::StateTensor& state : export_states(sequences.front())) {
      states[state.present] = state.tensor.dims();
      lathe::FileWriter own(q.at("states").get<std::string>() + "/" + state.present);
      own.write({state.tensor.as<std::byte>(), static_cast<size_t>(state.tensor.byte_size())});
      own.commit();
    }
  }
  return {{"vocabulary", decoder.vocabulary()}, {"states", states}};
}

// Logits of every token of one request: `positions` [tokens] or [3, tokens], and `embedded`: begin,
// `dims` and `file` of each embedding tensor.
Json item(const Decoder& decoder, const Json& q) {
  const auto tokens = q.at("tokens").get<std::vector<Token>>();
  const auto positions = q.value("positions", std::vector<int64_t>{});
  std::vector<lathe::llm::EmbeddedTokens> embedded;
  for (const Json& entry : q.value("embedded", Json::array())) {
    auto given = inputs_of({{"inputs", {{"values", entry}}}});
    embedded.push_back({entry.at("begin").get<int64_t>(),
                        lathe::llm::make_embeddings(std::move(given.at("values")))});
  }
  lathe::llm::Sequence sequence = decoder.new_sequence();
  const lathe::llm::StepRequest request{.sequence = &sequence,
                                        .tokens = tokens,
                                        .logits = lathe::llm::LogitPositions::all(),
                                        .embedded = embedded,
                                        .positions = positions};
  const lathe::Tensor logits = decoder.step({&request, 1});
  lathe::FileWriter file(q.at("item").get<std::string>());
  file.write(std::as_bytes(logits.elements<float>()));
  file.commit();
  return {{"vocabulary", decoder.vocabulary()}};
}

Json notes(const Decoder& decoder) {
  const lathe::llm::DecoderNotes notes = decoder.notes();
  Json states = Json::array();
  for (const lathe::llm::StateNote& state : notes.states) {
    states.push_back({{"name", state.name},
                      {"kind", std::string(to_string(state.kind))},
                      {"window", state.window},
                      {"paged", state.paged}});
  }
  return {
      {"packed", notes.packed}, {"not_packed_reason", notes.not_packed_reason}, {"states", states}};
}

Json generate(const std::shared_ptr<const Decoder>& decoder, const Json& q) {
  lathe::llm::Generator generator(decoder);
  for (const Json& entry : q.at("generate")) {
    lathe::search::SearchOptions options = decoder->config().search;
    set_search_options(options, entry.value("options", Json::object()));
    const size_t prompt = generator.add({}, options);
    const lathe::llm::NamedTensors inputs = inputs_of(q);
    for (const auto& [name, tensor] : inputs) generator.set_model_input(prompt, name, tensor);
    generator.append_tokens(prompt, entry.at("tokens").get<std::vector<Token>>());
  }
  while (generator.generate_next_token()) {
  }
  Json results = Json::array();
  for (size_t i = 0; i < generator.prompts(); ++i) {
    Json outputs = Json::array();
    for (const lathe::llm::Output& output : generator.outputs(i)) {
      const auto ids = output.generated();
      outputs.push_back(
          {{"ids", std::vector<Token>(ids.begin(), ids.end())}, {"score", output.score}});
    }
    results.push_back(std::move(outputs));
  }
  return results;
}

}  // namespace

int main() {
  Opened opened;
  for (std::string line; std::getline(std::cin, line);) {
    try {
      const Json q = Json::parse(line);
      const std::shared_ptr<const Decoder> decoder = open(opened, q);
      const Json answer = q.contains("logits")  ? logits(*decoder, q)
                          : q.contains("item")  ? item(*decoder, q)
                          : q.contains("notes") ? notes(*decoder)
                                                : generate(decoder, q);
      std::cout << answer.dump() << std::endl;
    } catch (const lathe::Error& error) {
      std::cout << Json{{"error", error.message()}}.dump() << std::endl;
    }
  }
}
