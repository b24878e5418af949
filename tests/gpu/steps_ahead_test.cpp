// SPDX-License-Identifier: MIT
// Steps that are enqueued before the host has read the token before them: tokens stay the
// reference's, whatever the caller does in between, and a step costs one wait.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/support/gpu_host_target.h"
#include "tests/support/sampled_generation.h"

namespace lathe::llm {
namespace {

using test::finish;
using Lists = test::TokenLists;

class StepsAhead : public testing::Test {
 protected:
  void SetUp() override {
    if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a card's driver does not count";
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "missing " << folder_;
  }
  std::shared_ptr<const Decoder> open(std::shared_ptr<const Target> target,
                                      int64_t page_slots = 4) const {
    DecoderOptions options;
    options.target = std::move(target);
    options.page_slots = page_slots;
    return std::make_shared<Decoder>(folder_, options);
  }
  std::shared_ptr<const Target> target() {
    return targets_.emplace_back(
        std::make_shared<GpuTarget>("gpu:host", driver_, 0, gpu::CodeStore::default_folder()));
  }
  template <class F>
  void expect_alike(F&& check) {
    EXPECT_EQ(check(open(target())), check(open(find_target("ref"))));
  }

  const std::string folder_ = "../shared/models/zoo/llama/fp32";
  const std::shared_ptr<gpu::Driver> driver_ = gpu::make_host_driver();
  std::vector<std::shared_ptr<const Target>> targets_;  // outlive what is compiled for them
};

search::SearchOptions plain(int64_t tokens, int64_t seed = -1) {
  search::SearchOptions options;
  options.max_new_tokens = tokens;
  options.repetition_penalty = 1;
  options.do_sample = seed >= 0;
  options.random_seed = seed;
  return options;
}

TEST_F(StepsAhead, AStepIsOneGraphAndOneWait) {
  const auto decoder = open(target(), 64);
  for (const int64_t seed : {-1, 7}) {
    Generator generator(decoder);
    search::SearchOptions options = plain(40, seed);
    options.min_new_tokens = 40;
    generator.add(std::vector<Token>{1, 5, 9}, options);
    generator.add(std::vector<Token>{1, 7}, options);
    for (int i = 0; i < 12; ++i) generator.generate_next_token();
    constexpr int kSteps = 16;
    const gpu::Driver::Counts before = driver_->counts();
    const int64_t crossed = gpu::crossed_bytes(*driver_);
    for (int i = 0; i < kSteps; ++i) generator.generate_next_token();
    const gpu::Driver::Counts after = driver_->counts();
    EXPECT_EQ(after.waits - before.waits, kSteps);
    EXPECT_EQ(after.graphs - before.graphs, kSteps);
    // Tables and the choice's numbers cross in a launch each, and so do its results.
    EXPECT_LE(after.launches - before.launches, 6 * kSteps);
    EXPECT_LE(after.copies - before.copies, kSteps);  // the logits, to where they are chosen from
    EXPECT_LE((gpu::crossed_bytes(*driver_) - crossed) / kSteps, 1024);
  }
}

TEST_F(StepsAhead, SequencesEndAtDifferentLengths) {
  expect_alike([](const std::shared_ptr<const Decoder>& decoder) {
    Generator generator(decoder);
    search::SearchOptions several = plain(30, 3);
    several.num_return_sequences = 3;
    several.temperature = 3;
    generator.add(std::vector<Token>{1, 5, 9}, plain(7));
    generator.add(std::vector<Token>{1, 7}, plain(12, 5));
    generator.add(std::vector<Token>{1, 4, 2, 8}, several);
    generator.add(std::vector<Token>{1, 4, 4}, plain(25));
    return finish(generator);
  });
}

// Ends that no limit foretells: those tokens that the reference chose, as stop tokens of others.
TEST_F(StepsAhead, ATokenMayEndASequence) {
  expect_alike([](const std::shared_ptr<const Decoder>& decoder) {
    Lists all;
    for (int64_t seed = 0; seed < 3; ++seed) {
      Generator generator(decoder);
      search::SearchOptions options = plain(40, seed);
      options.temperature = 2;
      for (const int64_t end : decoder->config().end_tokens) {
        options.logit_bias.emplace_back(static_cast<Token>(end), 6.0F);
      }
      generator.add(std::vector<Token>{1, 5, 9}, options);
      generator.add(std::vector<Token>{1, 7, 3, 3}, options);
      options.num_return_sequences = 3;
      generator.add(std::vector<Token>{1, 2, 4}, options);
      for (const auto& tokens : finish(generator)) all.push_back(tokens);
    }
    return all;
  });
}

TEST_F(StepsAhead, TheCallerMayIntervene) {
  expect_alike([](const std::shared_ptr<const Decoder>& decoder) {
    Lists all;
    for (int way = 0; way < 8; ++way) {
      Generator generator(decoder);
      generator.add(std::vector<Token>{1, 5, 9}, plain(30));
      generator.add(std::vector<Token>{1, 7}, plain(30, 2));
      for (int i = 0; i < 6; ++i) generator.generate_next_token();
      Generator other(decoder);
      CancelToken cancel;
      cancel.cancel();
      if (way == 0) generator.rewind_to(0, 5);
      if (way == 1) generator.add(std::vector<Token>{1, 8, 8}, plain(9));
      if (way == 2) other.add(generator.state(0), plain(20));
      if (way == 3) EXPECT_THROW(generator.generate_next_token(&cancel), Error);
      if (way == 4) generator.compute_logits();
      if (way == 5) {
        generator.set_hook(
            [](size_t, std::span<const Token>, std::span<float> logits) { logits[5] += 100; });
      }
      if (way == 6) {
        const std::vector<uint32_t> mask(static_cast<size_t>((decoder->vocabulary() + 31) / 32),
                                         0x80);
        generator.set_token_mask(1, mask);
      }
      if (way == 7) static_cast<void>(generator.step_logits(0));
      for (int i = 0; i < 3; ++i) {
        generator.generate_next_token();
        other.generate_next_token();
      }
      for (const auto& tokens : finish(other)) all.push_back(tokens);
      for (const auto& tokens : finish(generator)) all.push_back(tokens);
    }
    return all;
  });
}

TEST_F(StepsAhead, LogitsAreThoseOfTheLastToken) {
  const auto decoder = open(target());
  const auto reference = open(find_target("ref"));
  Generator found(decoder);
  Generator expected(reference);
  found.add(std::vector<Token>{1, 5, 9}, plain(12));
  expected.add(std::vector<Token>{1, 5, 9}, plain(12));
  for (int i = 0; i < 10; ++i) {
    found.generate_next_token();
    expected.generate_next_token();
    const std::span<const float> a = expected.logits(0);
    const std::span<const float> b = found.logits(0);
    ASSERT_EQ(a.size(), b.size());
    for (size_t k = 0; k < a.size(); ++k) ASSERT_NEAR(a[k], b[k], 1e-3F) << i << ' ' << k;
  }
}

TEST_F(StepsAhead, AFailedCallLosesNoToken) {
  const auto expected = [&] {
    Generator generator(open(find_target("ref")));
    generator.add(std::vector<Token>{1, 5, 9}, plain(10));
    return finish(generator);
  }();
  for (const int64_t call : {1, 2, 3, 5, 8}) {
    const auto decoder = open(target());
    Generator generator(decoder);
    generator.add(std::vector<Token>{1, 5, 9}, plain(10));
    for (int i = 0; i < 5; ++i) generator.generate_next_token();
    const PromptState state = generator.state(0);
    driver_->fail_at(call);
    try {
      EXPECT_EQ(finish(generator), expected) << call;
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::device || error.kind() == ErrorKind::out_of_memory)
          << error.what();
    }
    driver_->fail_at(0);
    EXPECT_GE(generator.tokens(0).size(), state.tokens.size());
    // What was generated so far is a prefix of the whole.
    const std::span<const Token> tokens = generator.tokens(0);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), expected[0].begin())) << call;
  }
}

}  // namespace
}  // namespace lathe::llm
