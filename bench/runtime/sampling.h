// SPDX-License-Identifier: MIT
// Rows that choose tokens: from made logits, and as part of generation.
#pragma once

#include <cmath>
#include <random>
#include <set>

#include "bench/runtime/decoders.h"
#include "llm/model/generator.h"
#include "llm/search/sampling_block.h"
#if __has_include("llm/model/token_chooser.h")
#include "llm/model/token_chooser.h"
#define LATHE_CHOOSES_TOGETHER  // older commits choose one token after the other
#endif

namespace lathe::bench {

constexpr int64_t kSampled = 64;  // sequences

inline search::SearchOptions sampling_options() {
  search::SearchOptions options;
  options.do_sample = true;
  options.top_k = 50;
  options.top_p = 0.9;
  return options;
}

// The tokens that top-k and top-p keep, by a full sort.
inline std::set<llm::Token> kept_tokens(std::span<const float> logits,
                                        const search::SearchOptions& options) {
  std::vector<llm::Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](llm::Token token) { return logits[static_cast<size_t>(token)]; };
  std::ranges::sort(order, [&](llm::Token a, llm::Token b) {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  });
  order.resize(static_cast<size_t>(options.top_k));
  double total = 0;
  for (const llm::Token token : order) total += std::exp(double{logit(token)});
  std::set<llm::Token> kept;
  double sum = 0;
  for (const llm::Token token : order) {
    kept.insert(token);
    sum += std::exp(double{logit(token)}) / total;
    if (sum >= options.top_p) break;
  }
  return kept;
}

inline Lines measure_choosing([[maybe_unused]] const Settings& settings) {
  constexpr int64_t kVocabulary = 128256;
  const Tensor rows(ElementType::f32, {kSampled, kVocabulary});
  const std::span<float> logits = rows.elements<float>();
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  for (float& logit : logits) logit = normal(random);
  const search::SearchOptions options = sampling_options();
  std::vector<llm::Token> chosen(kSampled);
#ifdef LATHE_CHOOSES_TOGETHER
  const llm::TokenChooser chooser(settings.target, settings.pool);
  std::vector<llm::ChoiceRequest> requests(kSampled);
  for (size_t i = 0; i < kSampled; ++i) {
    requests[i].block = {.options = &options, .seed = 1, .sequence = i};
    requests[i].row = static_cast<int64_t>(i);
  }
  llm::ChosenTokens results;
  const llm::StepLogits logits_of_step(rows);
  const auto choose = [&] {
    chooser.choose(logits_of_step, requests, results);
    chosen = results.tokens;
  };
#else
  std::vector<float> values;
  const auto choose = [&] {
    for (size_t i = 0; i < kSampled; ++i) {
      const auto own = logits.subspan(i * kVocabulary, kVocabulary);
      values.assign(own.begin(), own.end());  // as a step does: the sampler changes its logits
      chosen[i] = search::choose_next(values, {.options = &options, .seed = 1, .sequence = i});
    }
  };
#endif
  choose();
  for (size_t i = 0; i < kSampled; ++i) {
    const auto own = logits.subspan(i * kVocabulary, kVocabulary);
    check(kept_tokens(own, options).contains(chosen[i]), ErrorKind::internal,
          "token {} of sequence {} is not among those that top-k and top-p keep", chosen[i], i);
  }
  const double seconds = fastest(choose);
  Tensor tokens(ElementType::i32, {kSampled});
  std::ranges::copy(chosen, tokens.as<int32_t>());
  return {{"",
           fmt::format("choosing in {} x {} logits, top-k 50, top-p 0.9", kSampled, kVocabulary),
           1e3 * seconds, "ms", false, false, hash_of(std::vector<Box>(1, Box{tokens}))}};
}

// Tokens of 64 sampled sequences, and the seconds of the fastest step after the first.
struct Sampled {
  Sampled(const std::shared_ptr<const llm::Decoder>& decoder, int64_t new_tokens)
      : tokens(ElementType::i32, {kSampled, new_tokens}) {
    llm::Generator generator(decoder);
    search::SearchOptions options = sampling_options();
    options.min_new_tokens = options.max_new_tokens = new_tokens;
    for (int64_t i = 0; i < kSampled; ++i) {
      options.random_seed = i;
      generator.add(made_tokens(i, kPromptTokens, decoder->vocabulary()), options);
    }
    generator.generate_next_token();
    bool more = new_tokens > 1;
    while (more)
      seconds = std::min(seconds, seconds_of([&] { more = generator.generate_next_token(); }));
    for (int64_t i = 0; i < kSampled; ++i) {
      const auto all = generator.tokens(static_cast<size_t>(i)).subspan(kPromptTokens);
      check(std::ssize(all) == new_tokens, ErrorKind::internal,
            "sequence {} has {} new tokens, expected {}", i, all.size(), new_tokens);
      std::ranges::copy(all, tokens.as<int32_t>() + i * new_tokens);
    }
  }
  double seconds = 1e9;
  Tensor tokens;
};

inline Lines measure_sampled(const Settings& settings) {
  Lines lines;
  for (const Model& model : settings.decoders) {
    const auto decoder = open_decoder(model, settings);
    constexpr int64_t kTokens = 12;
    const Sampled first(decoder, kTokens), second(decoder, kTokens);
    check(identical(first.tokens, second.tokens), ErrorKind::internal,
          "'{}' samples other tokens in a second run with equal seeds", model.path);
    lines.push_back({model.name,
                     fmt::format("decode of {} sequences, top-k 50, top-p 0.9", kSampled),
                     kSampled / std::min(first.seconds, second.seconds), "tokens/s", false, true,
                     hash_of(std::vector<Box>(1, Box{first.tokens}))});
  }
  return lines;
}

}  // namespace lathe::bench
