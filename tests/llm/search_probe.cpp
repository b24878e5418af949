// SPDX-License-Identifier: MIT
// Runs token search for tests in Python: reads a JSON object and writes a JSON value per line.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/philox.h"
#include "llm/model/choice_parameters.h"
#include "llm/search/beam_search.h"
#include "llm/search/log_probabilities.h"
#include "llm/search/logits_processors.h"

using lathe::search::BeamSearch;
using lathe::search::SearchOptions;
using lathe::search::Token;
using Json = nlohmann::json;

namespace {

Json numbers(std::span<const float> values) {
  Json list = Json::array();
  for (const float x : values) list.push_back(std::isfinite(x) ? Json(x) : Json(nullptr));
  return list;
}

Json process(const Json& q, const SearchOptions& options) {
  std::vector<float> logits = q.at("logits").get<std::vector<float>>();
  const auto tokens = q.value("tokens", std::vector<Token>{});
  const auto ends = q.value("ends", std::vector<Token>{});
  apply_rules(logits, {tokens, q.value("prompt", size_t{0})}, options, ends, options.max_length);
  if (!options.greedy()) apply_cutoffs(logits, lathe::llm::choice_parameters(options));
  return numbers(logits);
}

Json draw(const Json& q, const SearchOptions& options) {
  std::vector<float> logits = q.at("logits").get<std::vector<float>>();
  if (!options.greedy()) apply_cutoffs(logits, lathe::llm::choice_parameters(options));
  std::vector<int64_t> counts(logits.size());
  const auto draws = q.at("draws").get<uint64_t>();
  for (uint64_t i = 0; i < draws; ++i) {
    const double uniform =
        lathe::philox_uniform(q.at("seed").get<uint64_t>(), q.value("sequence", 0U), i);
    const Token token =
        options.greedy() ? lathe::choose_largest(logits) : lathe::choose_by(logits, uniform);
    ++counts[static_cast<size_t>(token)];
  }
  return counts;
}

// Logits in [-4, 4), in steps of 2^-17, by the formula of scripts/make_beam_vectors.py.
std::vector<float> scripted(uint64_t table, uint64_t item, uint64_t length, Token last,
                            Token before, size_t vocabulary) {
  std::vector<float> logits(vocabulary);
  for (size_t i = 0; i < vocabulary; ++i) {
    const uint64_t x = table * 7919 + item * 104729 + length * 1299709 +
                       static_cast<uint64_t>(last) * 15485863 +
                       static_cast<uint64_t>(before) * 32452843 + i * 49979687;
    const uint64_t mixed = (x * x % 2147483647 + x) * 48271 % 2147483647;
    logits[i] = static_cast<float>(mixed % 1048576) / 131072 - 4;
  }
  logits[2] += 1;  // the end token is often among the best
  return logits;
}

Json beams(const Json& q, const SearchOptions& options) {
  const auto table = q.at("table").get<uint64_t>();
  const auto vocabulary = q.at("vocabulary").get<size_t>();
  Json items = Json::array();
  for (uint64_t item = 0; item < q.at("batch").get<uint64_t>(); ++item) {
    const std::vector<Token> prompt = {3, static_cast<Token>(4 + item)};
    BeamSearch search(options, {2}, 2, options.max_length);
    while (!search.done()) {
      std::vector<std::vector<float>> rows;
      for (size_t beam = 0; beam < search.beams(); ++beam) {
        std::vector<Token> all = prompt;
        for (const Token token : search.tokens(beam)) all.push_back(token);
        rows.push_back(
            scripted(table, item, all.size(), all.back(), all[all.size() - 2], vocabulary));
        lathe::search::to_log_probabilities(rows.back());
      }
      const std::vector<std::span<const float>> views(rows.begin(), rows.end());
      search.step(views);
    }
    Json list = Json::array();
    for (const auto& hypothesis : search.finish()) {
      list.push_back({{"tokens", hypothesis.tokens}, {"score", hypothesis.score}});
    }
    items.push_back(list);
  }
  return items;
}

Json answer(const Json& q) {
  SearchOptions options;
  set_search_options(options, q.value("options", Json::object()));
  check_search_options(options, q.value("vocabulary", 1 << 20));
  const std::string what = q.at("do").get<std::string>();
  if (what == "process") return process(q, options);
  if (what == "draw") return draw(q, options);
  return beams(q, options);
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      std::cout << answer(Json::parse(line)).dump() << '\n';
    } catch (const lathe::Error& error) {
      std::cout << Json{{"error", error.message()}}.dump() << '\n';
    }
  }
}
