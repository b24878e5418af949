// SPDX-License-Identifier: MIT
// Generation with text, on the folder examples/counting: the token after n is n + 1, and 15 ends.
#include "llm/model/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "base/error.h"
#include "base/file_map.h"
#include "llm/tokenizer/load.h"
#include "ops/support/token_choice.h"

namespace lathe::llm {
namespace {

const std::string kFolder = "examples/counting";

class CountingTest : public testing::Test {
 protected:
  static search::SearchOptions stopping_at(std::vector<std::string> stops) {
    search::SearchOptions options;
    options.stop_strings = std::move(stops);
    return options;
  }
  static void run(Generator& generator) {
    while (generator.generate_next_token()) {
    }
  }
  static std::vector<Token> tokens_of(const Output& output) {
    return {output.generated().begin(), output.generated().end()};
  }

  std::shared_ptr<const Decoder> decoder_ = std::make_shared<const Decoder>(kFolder);
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_ = tokenizer::load_tokenizer(kFolder);
};

TEST_F(CountingTest, outputs_have_text_without_end_tokens) {
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{11}, {});
  run(generator);
  const Output output = generator.outputs(0).front();
  EXPECT_EQ(tokens_of(output), (std::vector<Token>{12, 13, 14, 15}));
  EXPECT_EQ(output.text, "twelve thirteen fourteen");
  EXPECT_EQ(output.reason, FinishReason::stop);
}

TEST_F(CountingTest, a_stop_string_across_tokens_ends_its_sequence_alone) {
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{1}, stopping_at({"four fi", "nine"}));
  generator.add(std::vector<Token>{7}, stopping_at({"four fi", "nine"}));
  generator.add(std::vector<Token>{9}, {});
  run(generator);
  const Output first = generator.outputs(0).front();
  EXPECT_EQ(tokens_of(first), (std::vector<Token>{2, 3, 4, 5}));
  EXPECT_EQ(first.text, "two three ");
  EXPECT_EQ(first.reason, FinishReason::stop);
  const Output second = generator.outputs(1).front();
  EXPECT_EQ(tokens_of(second), (std::vector<Token>{8, 9}));
  EXPECT_EQ(second.text, "eight ");
  EXPECT_EQ(tokens_of(generator.outputs(2).front()), (std::vector<Token>{10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(generator.tokens_run(), 4 + 2 + 6) << "a finished sequence runs no tokens";
}

TEST_F(CountingTest, prefixes_of_stop_strings_are_held_back) {
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{1}, stopping_at({"three five"}));
  generator.generate_next_token();
  EXPECT_EQ(generator.text(0), "two");
  generator.generate_next_token();
  EXPECT_EQ(generator.text(0), "two ");
  generator.generate_next_token();
  EXPECT_EQ(generator.text(0), "two three four");
}

TEST_F(CountingTest, stop_strings_end_beams) {
  search::SearchOptions options = stopping_at({"six"});
  options.num_beams = 2;
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{3}, options);
  run(generator);
  const Output best = generator.outputs(0).front();
  EXPECT_EQ(best.reason, FinishReason::stop);
  EXPECT_EQ(tokens_of(best), (std::vector<Token>{4, 5, 6}));
  EXPECT_EQ(best.text, "four five ");
}

TEST_F(CountingTest, a_second_turn_restarts_its_text) {
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{1}, stopping_at({"three"}));
  run(generator);
  EXPECT_EQ(generator.text(0), "two ");
  generator.append_tokens(0, std::vector<Token>{12});
  run(generator);
  EXPECT_EQ(generator.text(0), "thirteen fourteen");
  generator.rewind_to(0, 2);
  EXPECT_EQ(generator.text(0), "");
  run(generator);
  EXPECT_EQ(tokens_of(generator.outputs(0).front()), std::vector<Token>{3}) << "the stop string";
}

TEST_F(CountingTest, stop_strings_require_a_tokenizer) {
  Generator generator(decoder_);
  try {
    generator.add(std::vector<Token>{1}, stopping_at({"three"}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "stop string 'three' requires a tokenizer, but this generator has none");
  }
}

TEST_F(CountingTest, a_deadline_leaves_everything_as_it_was) {
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{1}, {});
  EXPECT_THROW(generator.generate_next_token(nullptr, Clock::now()), Error);
  EXPECT_EQ(generator.tokens(0).size(), 1U);
  generator.generate_next_token();
  EXPECT_EQ(generator.text(0), "two");
}

TEST_F(CountingTest, a_hook_that_throws_changes_nothing) {
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{3}, {});
  generator.add(std::vector<Token>{8}, {});
  int calls = 0;
  generator.set_hook([&](size_t prompt, std::span<const Token>, std::span<float> logits) {
    std::ranges::fill(logits, 0.0F);
    if (prompt == 1 && ++calls == 2) throw std::runtime_error("refused");
    logits[prompt == 0 ? 7 : 9] = 1;
  });
  EXPECT_TRUE(generator.generate_next_token());
  EXPECT_THROW(generator.generate_next_token(), std::runtime_error);
  generator.set_hook({});
  while (generator.generate_next_token()) {
  }
  EXPECT_EQ(generator.text(0).substr(0, 17), "seven seven eight");
  EXPECT_EQ(generator.text(1), "nine ten eleven twelve thirteen fourteen");
}

TEST_F(CountingTest, logits_precede_sampling_and_can_be_replaced) {
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{3}, {});
  generator.compute_logits();
  const std::span<const float> logits = generator.logits(0);
  EXPECT_EQ(std::ranges::max_element(logits) - logits.begin(), 4);
  EXPECT_EQ(generator.tokens(0).size(), 1U);
  std::vector<float> others(16, 0.0F);
  others[12] = 1;
  generator.set_logits(0, others);
  generator.generate_next_token();
  EXPECT_EQ(generator.text(0), "twelve");
  generator.generate_next_token();
  EXPECT_EQ(generator.text(0), "twelve thirteen");
  EXPECT_EQ(generator.tokens_run(), 2);
  EXPECT_THROW(generator.set_logits(0, std::vector<float>(3)), Error);
}

// Prompts with pending logits block no others, and each samples from its own logits.
TEST_F(CountingTest, prompts_added_or_rewound_before_sampling_run) {
  Generator generator(decoder_);
  generator.add(std::vector<Token>{1, 2}, {});
  generator.add(std::vector<Token>{7}, {});
  generator.compute_logits();
  const auto most_likely = [&](size_t prompt) { return choose_largest(generator.logits(prompt)); };
  EXPECT_EQ(generator.add(generator.state(0), {}), 2U);
  generator.append_tokens(1, std::vector<Token>{9});
  generator.compute_logits();
  EXPECT_EQ(most_likely(0), 3);
  EXPECT_EQ(most_likely(1), 10);
  EXPECT_EQ(most_likely(2), 3);
  EXPECT_EQ(generator.tokens_run(), 3 + 2) << "no token runs twice";
  generator.rewind_to(0, 1);
  generator.generate_next_token();
  EXPECT_EQ(generator.tokens(0).back(), 2);
  EXPECT_EQ(generator.tokens(1).back(), 10);
  EXPECT_EQ(generator.tokens(2).back(), 3);
}

TEST_F(CountingTest, a_fork_has_all_text_and_the_limits_of_its_own_options) {
  search::SearchOptions options = stopping_at({"four nine"});
  options.max_new_tokens = 3;
  Generator generator(decoder_, tokenizer_);
  generator.add(std::vector<Token>{1}, options);
  run(generator);
  EXPECT_EQ(generator.outputs(0).front().text, "two three four");
  generator.add(generator.state(0), options);
  EXPECT_EQ(generator.outputs(1).front().text, "two three four")
      << "nothing is held back at the end";
  EXPECT_EQ(generator.outputs(1).front().reason, FinishReason::length);
  options.max_new_tokens = 5;
  generator.add(generator.state(0), options);
  run(generator);
  EXPECT_EQ(generator.outputs(1).front().text, "two three four");
  EXPECT_EQ(generator.outputs(2).front().text, "two three four five six");
}

TEST_F(CountingTest, files_may_be_in_memory) {
  MemoryFiles files;
  for (const std::string name : {"genai_config.json", "model.onnx"}) {
    const auto file = FileMap::open(kFolder + "/" + name);
    files[name] = {file->text(), file};
  }
  DecoderOptions options;
  options.files = files;
  Generator generator(std::make_shared<const Decoder>("", options), tokenizer_);
  generator.add(std::vector<Token>{12}, {});
  run(generator);
  EXPECT_EQ(generator.text(0), "thirteen fourteen");
}

}  // namespace
}  // namespace lathe::llm
