// SPDX-License-Identifier: MIT
#include "llm/model/decoder.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "llm/model/generator.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {
namespace {

class DecoderTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string folder = zoo_folder(GetParam());
    if (folder.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/" << GetParam();
    decoder_ = std::make_shared<const Decoder>(folder + "/fp32");
    for (int i = 0; i < 50; ++i) prompt_.push_back((i * 37 + 11) % 500 + 5);
  }

  // Logits of all tokens, run in steps of at most `part` tokens.
  std::vector<float> run(Sequence& sequence, std::span<const Token> tokens, size_t part) const {
    std::vector<float> all;
    for (size_t at = 0; at < tokens.size(); at += part) {
      const StepRequest request{&sequence, tokens.subspan(at, std::min(part, tokens.size() - at)),
                                LogitPositions::all()};
      const Tensor logits = decoder_->step({&request, 1});
      all.insert(all.end(), logits.as<float>(), logits.as<float>() + logits.count());
    }
    return all;
  }
  static bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
  }

  std::shared_ptr<const Decoder> decoder_;
  std::vector<Token> prompt_;
};

TEST_P(DecoderTest, computes_the_same_bits_for_any_chunks) {
  Sequence whole = decoder_->new_sequence();
  const std::vector<float> expected = run(whole, prompt_, prompt_.size());
  for (const size_t part : {1, 7, 16}) {
    Sequence sequence = decoder_->new_sequence();
    EXPECT_TRUE(same_bits(run(sequence, prompt_, part), expected)) << "parts of " << part;
    EXPECT_EQ(sequence.length(), 50);
  }
}

TEST_P(DecoderTest, computes_the_same_bits_alone_and_in_a_batch) {
  Sequence alone = decoder_->new_sequence();
  const std::vector<float> expected = run(alone, prompt_, prompt_.size());
  std::vector<Sequence> sequences(8, decoder_->new_sequence());
  std::vector<StepRequest> requests;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto all = std::span<const Token>(prompt_);
    requests.push_back(
        {&sequences[i], i == 3 ? all : all.subspan(i, 5 * i + 1), LogitPositions::all()});
  }
  const Tensor logits = decoder_->step(requests);
  size_t index = 0;
  for (size_t i = 0; i < 3; ++i) index += requests[i].tokens.size();
  const auto width = static_cast<size_t>(decoder_->vocabulary());
  EXPECT_TRUE(same_bits({logits.as<float>() + index * width, prompt_.size() * width}, expected));
}

TEST_P(DecoderTest, forks_diverge_independently) {
  Sequence first = decoder_->new_sequence();
  run(first, std::span(prompt_).first(20), 20);
  Sequence second = first;
  const std::vector<float> a = run(first, std::span(prompt_).subspan(20, 10), 1);
  const std::vector<float> b = run(second, std::span(prompt_).subspan(20, 10), 10);
  EXPECT_TRUE(same_bits(a, b));
  Sequence third = decoder_->new_sequence();
  run(third, std::span(prompt_).first(30), 30);
  const std::vector<float> c = run(third, std::span(prompt_).subspan(30, 5), 5);
  EXPECT_TRUE(same_bits(run(first, std::span(prompt_).subspan(30, 5), 5), c));
}

TEST_P(DecoderTest, a_step_that_fails_or_is_cancelled_changes_nothing) {
  Sequence sequence = decoder_->new_sequence();
  run(sequence, std::span(prompt_).first(20), 20);
  Sequence copy = sequence;
  const std::vector<Token> wrong = {1, 2, 100000};
  const StepRequest bad{&sequence, wrong};
  EXPECT_THROW(decoder_->step({&bad, 1}), Error);
  CancelToken cancel;
  cancel.cancel();
  const StepRequest good{&sequence, std::span(prompt_).subspan(20, 10)};
  EXPECT_THROW(decoder_->step({&good, 1}, &cancel), Error);
  EXPECT_EQ(sequence.length(), 20);
  EXPECT_EQ(sequence.pages(), copy.pages());
  EXPECT_TRUE(same_bits(run(sequence, std::span(prompt_).subspan(20, 10), 3),
                        run(copy, std::span(prompt_).subspan(20, 10), 10)));
}

INSTANTIATE_TEST_SUITE_P(types, DecoderTest,
                         testing::Values("llama", "lfm2", "gemma2", "gpt_oss", "qwen3_5"),
                         [](const auto& type) { return std::string(type.param); });

TEST(Generator, rewinds_and_samples_again) {
  const std::string folder = zoo_folder("llama");
  if (folder.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/llama";
  const auto decoder = std::make_shared<const Decoder>(folder + "/fp32");
  const std::vector<Token> prompt = {189, 327, 416, 494, 504};
  search::SearchOptions options;
  options.max_new_tokens = 12;
  Generator generator(decoder);
  generator.add(prompt, options);
  while (generator.generate_next_token()) {
  }
  const std::vector<Token> tokens = generator.outputs(0)[0].tokens;
  for (const size_t length : {tokens.size() - 1, size_t{7}, size_t{5}}) {
    generator.rewind_to(0, length);
    while (generator.generate_next_token()) {
    }
    EXPECT_EQ(generator.outputs(0)[0].tokens, tokens) << "rewound to " << length;
  }
}

TEST(Decoder, an_unknown_type_generates_the_tokens_of_the_known_type) {
  std::vector<std::string> warnings;
  set_log_sink([&](int, std::string_view text) { warnings.emplace_back(text); });
  const auto generate = [](const std::string& overlay) {
    DecoderOptions options;
    options.overlay = overlay;
    Generator generator(std::make_shared<const Decoder>("examples/counting", options));
    const std::vector<Token> prompt = {1, 2, 3};
    search::SearchOptions search;
    search.max_new_tokens = 8;
    generator.add(prompt, search);
    while (generator.generate_next_token()) {
    }
    return generator.outputs(0).front().tokens;
  };
  const std::vector<Token> expected = generate("");
  EXPECT_EQ(warnings, std::vector<std::string>{});
  EXPECT_GT(expected.size(), 3U);
  EXPECT_EQ(generate(R"({"model": {"type": "lama"}})"), expected);
  set_log_sink(nullptr);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_EQ(
      warnings.front(),
      "'examples/counting' has the unknown model type 'lama' (did you mean 'llama'?): running "
      "it as a decoder");
}

}  // namespace
}  // namespace lathe::llm
