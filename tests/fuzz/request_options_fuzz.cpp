// SPDX-License-Identifier: MIT
// Any JSON as the options of a request, any text as one option's value: refused, or options that
// round-trip and select tokens.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "llm/config/json_object.h"
#include "llm/model/choice_parameters.h"
#include "llm/search/beam_search.h"
#include "llm/search/log_probabilities.h"
#include "llm/search/logits_processors.h"

using namespace lathe;
using namespace lathe::search;

namespace {

constexpr int64_t kVocabulary = 24;
constexpr int64_t kLongest = 64;

void fail_loudly(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Selects one token by sampling or the largest logit, and runs a step of beam search.
void choose(const SearchOptions& options) {
  check_search_options(options, kVocabulary);
  const std::vector<Token> tokens = {1, 2, 3, 1, 2};
  const std::vector<Token> ends = {0};
  std::vector<float> logits;
  for (int64_t i = 0; i < kVocabulary; ++i) logits.push_back(static_cast<float>(i * 7 % 11) - 4);
  apply_rules(logits, {tokens, 3}, options, ends, kLongest);
  const bool any = *std::ranges::max_element(logits) > -INFINITY;
  if (!options.greedy()) apply_cutoffs(logits, llm::choice_parameters(options));
  const Token token = options.greedy() ? choose_largest(logits) : choose_by(logits, 0.3);
  if (token < (any ? 0 : -1) || token >= kVocabulary) fail_loudly("a token outside the vocabulary");
  if (options.num_beams == 1) return;
  BeamSearch beams(options, ends, 3, kLongest);
  to_log_probabilities(logits);
  const std::span<const float> row = logits;
  beams.step({&row, 1});
  beams.finish();
}

template <class F>
void expect_answer(F&& run) {
  try {
    run();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) fail_loudly(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  expect_answer([&] {
    SearchOptions options;
    set_search_options(options, llm::parse_json(text, "fuzz"));
    SearchOptions again;
    set_search_options(again, search_options_json(options));
    if (search_options_json(again) != search_options_json(options))
      fail_loudly("options change when they are written and read");
    choose(options);
  });
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return 0;
  expect_answer([&] {
    SearchOptions options;
    set_search_option(options, text.substr(0, equals), text.substr(equals + 1));
    choose(options);
  });
  return 0;
}
