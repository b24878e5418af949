// SPDX-License-Identifier: MIT
// A step with prefill and decode requests, which different programs run, commits all or nothing.
#include <gtest/gtest.h>

#include "base/error.h"
#include "llm/model/decoder.h"
#include "targets/target.h"
#include "tests/decoders/run_script.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {
namespace {

constexpr int64_t kShort = 20;  // positions of the prefill program's cos/sin caches

std::shared_ptr<const Decoder> make_stages(const char* target) {
  const std::filesystem::path folder = unpacked_zoo() / "stages";
  if (!run_script("make_stages.py", {folder.string(), fmt::format("short={}", kShort)})) {
    return nullptr;
  }
  DecoderOptions options;
  options.target = find_target(target);
  return std::make_shared<const Decoder>(folder.string(), options);
}

class StagesTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (find_target(GetParam()) == nullptr) GTEST_SKIP() << "target is unavailable";
    decoder_ = make_stages(GetParam());
    if (decoder_ == nullptr) GTEST_SKIP() << "make_stages.py requires build/venv";
    for (int i = 0; i < kShort; ++i) tokens_.push_back((i * 7 + i / 3) % 30);
  }

  std::vector<float> step(Sequence& sequence, std::span<const Token> tokens) const {
    const StepRequest request{&sequence, tokens};
    const Tensor logits = decoder_->step({&request, 1});
    return {logits.as<float>(), logits.as<float>() + logits.count()};
  }

  std::shared_ptr<const Decoder> decoder_;
  std::vector<Token> tokens_;
};

TEST_P(StagesTest, both_kinds_advance_together) {
  ASSERT_TRUE(decoder_->packed());
  ASSERT_NE(decoder_->prompt_plan(), nullptr);
  const std::span<const Token> all = tokens_;
  Sequence alone = decoder_->new_sequence(), other = decoder_->new_sequence();
  step(alone, all.first(9));
  Sequence fork = alone;
  const std::vector<float> token = step(alone, all.subspan(9, 1)), prompt = step(other, all);

  Sequence fresh = decoder_->new_sequence();
  const StepRequest both[] = {{&fresh, all}, {&fork, all.subspan(9, 1)}};
  const Tensor logits = decoder_->step(both);
  std::vector<float> expected = prompt;
  expected.insert(expected.end(), token.begin(), token.end());
  EXPECT_EQ(std::vector(logits.as<float>(), logits.as<float>() + logits.count()), expected);
  EXPECT_EQ(fork.length(), 10);
  EXPECT_EQ(fresh.length(), kShort);
}

TEST_P(StagesTest, neither_kind_advances_if_one_fails) {
  const std::span<const Token> all = tokens_;
  Sequence token = decoder_->new_sequence(), prompt = decoder_->new_sequence();
  step(token, all.first(9));
  step(prompt, all);
  Sequence fork = token;
  const int64_t pages = static_cast<int64_t>(prompt.pages());
  const StepRequest both[] = {{&token, all.subspan(9, 1)}, {&prompt, all.first(2)}};
  EXPECT_THROW(decoder_->step(both), Error);  // position beyond the cos/sin caches
  EXPECT_EQ(token.length(), 9);
  EXPECT_EQ(prompt.length(), kShort);
  EXPECT_EQ(static_cast<int64_t>(prompt.pages()), pages);
  EXPECT_EQ(step(token, all.subspan(9, 1)), step(fork, all.subspan(9, 1)));
  EXPECT_EQ(step(prompt, all.first(1)).size(), 32U);  // the decode program's caches are longer
}

INSTANTIATE_TEST_SUITE_P(targets, StagesTest, testing::Values("ref", "cpu"),
                         [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace lathe::llm
