// SPDX-License-Identifier: MIT
// Generation with text, on the folder examples/counting: the token after n is n + 1, and 15 ends.
#include "llm/model/generator.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "llm/tokenizer/load.h"

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

TEST_F(CountingTest, outputs_have_texts_without_end_tokens) {
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
  EXPECT_EQ(generator.rows_run(), 4 + 2 + 6) << "an ended sequence runs no rows";
}

TEST_F(CountingTest, what_may_begin_a_stop_string_is_held_back) {
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

TEST_F(CountingTest, a_second_turn_begins_its_text_anew) {
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

TEST_F(CountingTest, stop_strings_want_a_tokenizer) {
  Generator generator(decoder_);
  try {
    generator.add(std::vector<Token>{1}, stopping_at({"three"}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "stop string 'three' wants a tokenizer, and this generator has none");
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

}  // namespace
}  // namespace lathe::llm
