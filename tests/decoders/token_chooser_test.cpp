// SPDX-License-Identifier: MIT
// The same tokens on every target, by many combinations of search options.
#include "llm/model/token_chooser.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "base/thread_pool.h"
#include "tensor/convert.h"
#include "tests/support/gpu_host_target.h"
#include "tests/support/sim_target.h"
#if defined(__x86_64__)
#include "targets/cpu/kernels/simd/isa.h"
#endif

namespace lathe::llm {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kVocabulary = 5003;

// Made logits: of small and of large spread, some of them equal.
Tensor made_logits(ElementType type) {
  Tensor wide(ElementType::f32, {kRows, kVocabulary});
  std::mt19937 random(3);
  for (int64_t i = 0; i < wide.count(); ++i) {
    std::normal_distribution<float> normal(0, i < wide.count() / 2 ? 1.5F : 6.0F);
    wide.as<float>()[i] = std::round(64 * normal(random)) / 64;
  }
  Tensor logits(type, wide.dims());
  convert(type, logits.data(), ElementType::f32, wide.data(), wide.count());
  return logits;
}

// One request for each combination of options.
class Requests {
 public:
  Requests() {
    std::mt19937 random(7);
    for (int i = 0; i < 40; ++i) history_.push_back(static_cast<Token>(random() % kVocabulary));
    for (size_t i = 0; i < mask_.size(); ++i) mask_[i] = static_cast<uint32_t>(random());
    for (const int64_t k : {0, 1, 5, 50, 4000}) {
      for (const double p : {0.0, 0.3, 0.95}) {
        search::SearchOptions options;
        options.do_sample = true;
        options.top_k = k;
        options.top_p = p;
        add(options);
        options.temperature = 0.6;
        options.log_probabilities = 3;
        add(options);
        options.repetition_penalty = 1.7;
        options.frequency_penalty = 0.3;
        options.no_repeat_ngram_size = 2;
        options.logit_bias = {{history_[1], 9.5F}, {17, -3}};
        add(options);
        options.min_p = 0.1;
        add(options);
        options.min_p = 0;
        options.typical_p = 0.5;
        options.suppress_tokens = {5, 6};
        add(options);
        options.typical_p = 1;
        options.eta_cutoff = 1e-3;
        options.forced_eos_token_id = {11, 12, 13, 700};
        add(options);
      }
    }
    search::SearchOptions greedy;
    greedy.log_probabilities = 7;
    add(greedy);
  }

  std::span<const ChoiceRequest> list() {
    requests_.clear();
    for (size_t i = 0; i < options_.size(); ++i) {
      ChoiceRequest& request = requests_.emplace_back();
      request.block = {.options = &options_[i],
                       .history = {history_, 11},
                       .longest = std::ssize(history_) + 1,
                       .seed = i % 3,
                       .sequence = i};
      if (i % 4 == 1) request.block.mask = mask_;
      request.row = static_cast<int64_t>(i) % kRows;
      if (options_[i].log_probabilities > 0) request.reported = static_cast<int64_t>(i + 1) % kRows;
    }
    return requests_;
  }

 private:
  void add(const search::SearchOptions& options) { options_.push_back(options); }

  std::vector<Token> history_;
  std::vector<uint32_t> mask_ = std::vector<uint32_t>((kVocabulary + 31) / 32);
  std::vector<search::SearchOptions> options_;
  std::vector<ChoiceRequest> requests_;
};

ChosenTokens choose(const std::shared_ptr<const Target>& target, const StepLogits& logits,
                    std::span<const ChoiceRequest> requests) {
  ThreadPool pool(2);
  ChosenTokens chosen;
  TokenChooser(target, &pool).choose(logits, requests, chosen);
  return chosen;
}

void expect_equal(const ChosenTokens& found, const ChosenTokens& expected, float bound) {
  EXPECT_EQ(found.tokens, expected.tokens);
  EXPECT_EQ(found.likely, expected.likely);
  EXPECT_EQ(found.likely_tokens, expected.likely_tokens);
  ASSERT_EQ(found.likely_log_probabilities.size(), expected.likely_log_probabilities.size());
  for (size_t i = 0; i < found.tokens.size(); ++i) {
    EXPECT_NEAR(found.log_probabilities[i], expected.log_probabilities[i], bound) << i;
  }
  for (size_t i = 0; i < found.likely_tokens.size(); ++i) {
    EXPECT_NEAR(found.likely_log_probabilities[i], expected.likely_log_probabilities[i], bound);
  }
}

TEST(TokenChooser, chooses_the_reference_s_tokens_on_every_instruction_set) {
#if defined(__x86_64__)
  Requests requests;
  struct Restore {
    ~Restore() { cpu::limit_isa(std::nullopt); }
  } const restore;
  for (const ElementType type : {ElementType::f32, ElementType::f16, ElementType::bf16}) {
    const StepLogits logits(made_logits(type));
    const ChosenTokens expected = choose(find_target("ref"), logits, requests.list());
    for (int i = 0; i < cpu::kIsaCount; ++i) {
      const auto isa = static_cast<cpu::Isa>(i);
      if (!cpu::host_supports(isa) || !cpu::not_in_build(isa).empty()) continue;
      cpu::limit_isa(isa);
      SCOPED_TRACE(cpu::to_string(isa));
      expect_equal(choose(find_target("cpu"), logits, requests.list()), expected, 1e-5F);
    }
  }
#else
  GTEST_SKIP() << "no vector kernels";
#endif
}

TEST(TokenChooser, chooses_the_reference_s_tokens_on_a_device) {
  Requests requests;
  const Tensor values = made_logits(ElementType::f16);
  const StepLogits logits(values);
  const ChosenTokens expected = choose(find_target("ref"), logits, requests.list());
  std::vector<std::shared_ptr<const Target>> targets = test::gpu_host_targets();
  for (const bool mixed : {false, true}) {
    targets.push_back(test::sim_target(mixed, test::kSimSeeds[0]));
  }
  for (const auto& target : targets) {
    SCOPED_TRACE(target->name());
    const float bound = is_gpu_target(target->name()) ? 1e-5F : 0;
    if (bound == 0) expect_equal(choose(target, logits, requests.list()), expected, bound);
    const Device& device = *target->device();
    const Tensor there = make_tensor(device, values.type(), values.dims());
    const auto stream = device.make_stream();
    stream->copy(there.data(), values.data(), static_cast<size_t>(values.byte_size()));
    stream->synchronize();
    expect_equal(choose(target, StepLogits(there, &device), requests.list()), expected, bound);
  }
}

TEST(TokenChooser, reports_that_no_token_is_left) {
  const StepLogits logits(Tensor(ElementType::f32, {1, 40}));
  search::SearchOptions options;
  options.do_sample = true;
  for (Token token = 0; token < 40; ++token) options.suppress_tokens.push_back(token);
  ChoiceRequest request;
  request.block.options = &options;
  ChosenTokens chosen;
  TokenChooser(find_target("auto"), nullptr).choose(logits, {&request, 1}, chosen);
  ASSERT_EQ(chosen.tokens, std::vector<Token>{-1});
  try {
    TokenChooser::check_chosen(chosen.tokens[0], request.block);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "no token is left after 0 tokens: no logit is finite");
  }
}

}  // namespace
}  // namespace lathe::llm
