// SPDX-License-Identifier: MIT
// A prompt with its answer so far continues from a fork and from bytes without a difference.
#include "llm/model/prompt_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {
namespace {

class PromptFileTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = zoo_folder(GetParam());
    if (folder.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/" << GetParam();
    decoder_ = std::make_shared<const Decoder>(folder + "/fp32");
    for (int i = 0; i < 40; ++i) tokens_.push_back((i * 37 + 11) % 500 + 5);
    options_.do_sample = true;
    options_.temperature = 2;
    options_.random_seed = 5;
    options_.max_new_tokens = 12;
    options_.repetition_penalty = 1.2;
    options_.log_probabilities = 2;
  }
  static std::vector<Token> finish(Generator& generator, size_t prompt) {
    while (generator.generate_next_token()) {
    }
    const Output output = generator.outputs(prompt).front();
    EXPECT_EQ(output.choices.size(), output.generated().size());
    return output.tokens;
  }

  std::shared_ptr<const Decoder> decoder_;
  std::vector<Token> tokens_;
  search::SearchOptions options_;
};

TEST_P(PromptFileTest, continues_without_a_difference) {
  Generator whole(decoder_);
  whole.add(tokens_, options_);
  const std::vector<Token> expected = finish(whole, 0);
  for (const bool with_logits : {false, true}) {
    Generator generator(decoder_);
    generator.add(tokens_, options_);
    for (int i = 0; i < 5; ++i) generator.generate_next_token();
    if (with_logits) generator.compute_logits();
    const std::vector<std::byte> bytes = save_prompt(generator.state(0));
    Generator other(decoder_);
    EXPECT_EQ(other.add(restore_prompt(*decoder_, bytes), options_), 0U);
    EXPECT_EQ(save_prompt(other.state(0)), bytes);
    EXPECT_EQ(finish(other, 0), expected);
    Generator forks(decoder_);
    forks.add(std::span(tokens_).first(7), options_);
    forks.generate_next_token();
    EXPECT_EQ(forks.add(generator.state(0), options_), 1U);
    EXPECT_EQ(finish(forks, 1), expected);
    EXPECT_EQ(finish(generator, 0), expected);
  }
}

TEST_P(PromptFileTest, refuses_truncated_or_changed_bytes) {
  Generator generator(decoder_);
  generator.add(tokens_, options_);
  for (int i = 0; i < 3; ++i) generator.generate_next_token();
  const std::vector<std::byte> bytes = save_prompt(generator.state(0));
  for (size_t size = 0; size < 700; size += 13) {
    EXPECT_THROW(restore_prompt(*decoder_, std::span(bytes).first(size)), Error) << size;
  }
  for (size_t at = 0; at < 700; at += 13) {
    std::vector<std::byte> changed = bytes;
    changed[at] ^= std::byte{0x10};
    EXPECT_THROW(restore_prompt(*decoder_, changed), Error) << at;
  }
}

TEST(PromptFile, is_for_one_model) {
  const auto decoder = std::make_shared<const Decoder>("examples/counting");
  const auto other = std::make_shared<const Decoder>("examples/counting");
  Generator generator(decoder);
  generator.add(std::vector<Token>{1, 2}, {});
  Generator elsewhere(other);
  EXPECT_THROW(elsewhere.add(generator.state(0), {}), Error);
  EXPECT_EQ(elsewhere.add(restore_prompt(*other, save_prompt(generator.state(0))), {}), 0U);
  while (elsewhere.generate_next_token()) {
  }
  EXPECT_EQ(elsewhere.tokens(0).size(), 15U);
}

INSTANTIATE_TEST_SUITE_P(types, PromptFileTest, testing::Values("llama", "lfm2", "qwen3_5"),
                         [](const auto& type) { return std::string(type.param); });

}  // namespace
}  // namespace lathe::llm
