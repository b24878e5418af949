// SPDX-License-Identifier: MIT
// Generation with cancellation, throwing hooks, several threads or a second chat turn produces the
// same tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "base/error.h"
#include "base/thread_pool.h"
#include "llm/model/generator.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {
namespace {

using Tokens = std::vector<Token>;

// Folders whose states grow, have a window, have both, or are convolutions; the first is always
// present.
class InterruptionTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string folder = GetParam();
    if (!folder.starts_with("examples")) {
      const size_t slash = folder.find('/');
      const std::string zoo = zoo_folder(folder.substr(0, slash));
      if (zoo.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/" << folder;
      folder = zoo + folder.substr(slash);
    }
    DecoderOptions options;
    options.pool = &pool_;
    decoder_ = std::make_shared<const Decoder>(folder, options);
  }

  // Prompts for greedy search, samples and beams.
  void add_prompts(Generator& generator) const {
    search::SearchOptions options;
    options.max_new_tokens = 8;
    generator.add(prompt(20), options);
    options.do_sample = true;
    options.random_seed = 3;
    options.temperature = 2;
    options.num_return_sequences = 3;
    generator.add(prompt(5), options);
    search::SearchOptions beams;
    beams.max_new_tokens = 6;
    beams.num_beams = 3;
    beams.num_return_sequences = 2;
    generator.add(prompt(9), beams);
  }
  Tokens prompt(int64_t count) const {
    Tokens tokens;
    for (int64_t i = 0; i < count; ++i) {
      tokens.push_back(static_cast<Token>((i * 37 + count) % (decoder_->vocabulary() - 3) + 3));
    }
    return tokens;
  }
  static std::vector<Tokens> results(const Generator& generator) {
    std::vector<Tokens> all;
    for (size_t i = 0; i < generator.prompts(); ++i) {
      for (const Output& output : generator.outputs(i)) all.push_back(output.tokens);
    }
    return all;
  }
  std::vector<Tokens> undisturbed(int64_t* tokens_run = nullptr) const {
    Generator generator(decoder_);
    add_prompts(generator);
    while (generator.generate_next_token()) {
    }
    if (tokens_run != nullptr) *tokens_run = generator.tokens_run();
    return results(generator);
  }
  // Tokens, and the number of cancelled steps.
  static int finish(Generator& generator, CancelToken& cancel) {
    int interrupted = 0;
    for (bool more = true; more;) {
      try {
        more = generator.generate_next_token(&cancel);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::interrupted) << error.message();
        cancel.reset();
        ++interrupted;
      }
    }
    return interrupted;
  }

  ThreadPool pool_{2};
  std::shared_ptr<const Decoder> decoder_;
};

TEST_P(InterruptionTest, cancelled_steps_change_no_token) {
  const std::vector<Tokens> expected = undisturbed();
  int interrupted = 0;
  for (int delay = 0; delay < 16; ++delay) {
    Generator generator(decoder_);
    add_prompts(generator);
    CancelToken cancel;
    if (delay == 0) cancel.cancel();  // the others arrive at any time
    std::atomic<bool> over = false;
    std::thread canceller([&] {
      for (int i = 0; i < 4 && !over; ++i) {
        std::this_thread::sleep_for(std::chrono::microseconds(delay * 60));
        cancel.cancel();
      }
    });
    interrupted += finish(generator, cancel);
    over = true;
    canceller.join();
    ASSERT_EQ(results(generator), expected) << "cancelled after " << delay * 60 << " us";
  }
  EXPECT_GT(interrupted, 0);
}

TEST_P(InterruptionTest, hooks_that_throw_change_no_token) {
  int64_t tokens_run = 0;
  const std::vector<Tokens> expected = undisturbed(&tokens_run);
  for (const int first : {1, 2, 3, 4}) {
    Generator generator(decoder_);
    add_prompts(generator);
    int call = 0;
    int fails = first;  // at this call, then at growing distances
    int thrown = 0;
    generator.set_hook([&](size_t, std::span<const Token>, std::span<float> logits) {
      if (++call != fails) return;
      fails += ++thrown;
      std::ranges::fill(logits, 1.0F);
      throw std::runtime_error("a hook");
    });
    for (bool more = true; more;) {
      try {
        more = generator.generate_next_token();
      } catch (const std::runtime_error&) {
        more = true;
      }
    }
    EXPECT_GT(thrown, 3);
    EXPECT_EQ(results(generator), expected) << "thrown first by call " << first;
    EXPECT_EQ(generator.tokens_run(), tokens_run);
  }
}

TEST_P(InterruptionTest, generators_on_threads_share_a_model) {
  const std::vector<Tokens> expected = undisturbed();
  std::vector<CancelToken> cancels(8);
  std::vector<std::vector<Tokens>> results_of(cancels.size());
  std::atomic<size_t> running = cancels.size();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < cancels.size(); ++i) {
    threads.emplace_back([&, i] {
      Generator generator(decoder_);
      add_prompts(generator);
      finish(generator, cancels[i]);
      results_of[i] = results(generator);
      --running;
    });
  }
  for (size_t i = 0; running > 0; ++i) {
    if (i < 100) cancels[i * 5 % cancels.size()].cancel();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& own : results_of) EXPECT_EQ(own, expected);
}

TEST_P(InterruptionTest, a_sample_is_independent_of_its_batch_and_of_chunks) {
  search::SearchOptions options;
  options.max_new_tokens = 10;
  options.do_sample = true;
  options.random_seed = 5;
  options.temperature = 3;
  Generator alone(decoder_);
  alone.add(prompt(30), options);
  while (alone.generate_next_token()) {
  }
  const Tokens expected = alone.outputs(0)[0].tokens;
  for (const size_t place : {0, 6}) {
    for (const int64_t chunk : {0, 1, 7}) {
      Generator together(decoder_);
      for (size_t i = 0; i < 8; ++i) {
        search::SearchOptions own = options;
        own.random_seed = i == place ? 5 : static_cast<int64_t>(i) + 90;
        own.num_return_sequences = i % 2 == 1 && i != place ? 2 : 1;
        if (i == place) own.chunk_size = chunk;
        together.add(prompt(i == place ? 30 : static_cast<int64_t>(3 * i) + 1), own);
      }
      while (together.generate_next_token()) {
      }
      EXPECT_EQ(together.outputs(place)[0].tokens, expected) << place << ", parts of " << chunk;
    }
  }
  options.num_return_sequences = 3;
  Generator several(decoder_);
  several.add(prompt(30), options);
  while (several.generate_next_token()) {
  }
  EXPECT_EQ(several.outputs(0)[0].tokens, expected);
  EXPECT_NE(several.outputs(0)[1].tokens, expected);
}

TEST_P(InterruptionTest, tokens_have_their_log_probabilities) {
  search::SearchOptions options;
  options.max_new_tokens = 5;
  options.min_new_tokens = 5;
  options.do_sample = true;
  options.random_seed = 2;
  options.log_probabilities = 3;
  Generator generator(decoder_);
  generator.add(prompt(4), options);
  std::vector<float> expected;
  const auto step = [&] {
    const bool more = generator.generate_next_token();
    double sum = 0;
    for (const float logit : generator.logits(0)) sum += std::exp(static_cast<double>(logit));
    const Token token = generator.tokens(0).back();
    expected.push_back(generator.logits(0)[static_cast<size_t>(token)] -
                       static_cast<float>(std::log(sum)));
    return more;
  };
  while (step()) {
  }
  generator.rewind_to(0, 6);
  expected.resize(2);
  while (step()) {
  }
  const std::vector<search::Choice> choices = generator.outputs(0)[0].choices;
  ASSERT_EQ(choices.size(), 5U);
  for (size_t i = 0; i < choices.size(); ++i) {
    EXPECT_NEAR(choices[i].log_probability, expected[i], 1e-5) << i;
    ASSERT_EQ(choices[i].most_likely.size(), 3U);
    EXPECT_GE(choices[i].most_likely[0].log_probability, choices[i].log_probability);
    EXPECT_GE(choices[i].most_likely[0].log_probability, choices[i].most_likely[2].log_probability);
  }
  generator.append_tokens(0, prompt(2));
  EXPECT_TRUE(generator.outputs(0)[0].choices.empty());
}

TEST_P(InterruptionTest, a_second_turn_equals_one_prompt) {
  search::SearchOptions options;
  options.max_new_tokens = 7;
  Generator turns(decoder_);
  turns.add(prompt(6), options);
  turns.add(prompt(3), options);
  while (turns.generate_next_token()) {
  }
  const int64_t before = turns.tokens_run();
  const Tokens first = turns.outputs(0)[0].tokens;
  turns.append_tokens(0, prompt(4));
  while (turns.generate_next_token()) {
  }
  Tokens whole = first;
  for (const Token token : prompt(4)) whole.push_back(token);
  Generator once(decoder_);
  once.add(whole, options);
  while (once.generate_next_token()) {
  }
  const Output output = once.outputs(0)[0];
  EXPECT_EQ(turns.outputs(0)[0].tokens, output.tokens);
  // The first answer's last token, four new ones, and all but the last of the second answer.
  EXPECT_EQ(turns.tokens_run() - before, 5 + static_cast<int64_t>(output.generated().size()) - 1);
}

INSTANTIATE_TEST_SUITE_P(folders, InterruptionTest,
                         testing::Values("examples/counting", "llama/fp32", "gpt_oss/int4",
                                         "lfm2/fp32", "qwen3_5/int4"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace lathe::llm
