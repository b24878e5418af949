// SPDX-License-Identifier: MIT
// Generation on the simulated device: samples, beams, hooks, masks, cancelling and limits have the
// tokens of the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "tests/support/sampled_generation.h"
#include "tests/support/sim_target.h"

namespace lathe::llm {
namespace {

using test::finish;
using test::kNewTokens;
using test::sampled;
using Lists = test::TokenLists;

class SimGenerator : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    folder_ = fmt::format("../shared/models/{}", GetParam());
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "missing " << folder_;
  }
  std::shared_ptr<const Decoder> open(std::shared_ptr<const Target> target,
                                      int64_t memory_limit = 0) const {
    DecoderOptions options;
    options.target = std::move(target);
    options.page_slots = 4;
    options.memory_limit = memory_limit;
    return std::make_shared<Decoder>(folder_, options);
  }
  // Runs `check` on the reference and on both kinds of device; expects equal results.
  template <class F>
  void expect_alike(F&& check) const {
    const auto expected = check(open(find_target("ref")));
    for (const bool mixed : {false, true}) {
      for (const uint64_t seed : test::kSimSeeds) {
        EXPECT_EQ(check(open(test::sim_target(mixed, seed))), expected) << mixed << ' ' << seed;
      }
    }
  }

  std::string folder_;
};

TEST_P(SimGenerator, samples_and_beams_have_the_reference_s_tokens) {
  expect_alike([](const std::shared_ptr<const Decoder>& decoder) {
    Generator generator(decoder);
    search::SearchOptions beams;
    beams.num_beams = beams.num_return_sequences = 3;
    beams.max_new_tokens = kNewTokens;
    search::SearchOptions several = sampled(5);
    several.num_return_sequences = 2;
    generator.add(std::vector<Token>{1, 5, 9}, sampled(3));
    generator.add(std::vector<Token>{1, 7}, beams);
    generator.add(std::vector<Token>{1, 4, 2, 8}, several);
    return finish(generator);
  });
}

TEST_P(SimGenerator, hooks_masks_and_set_logits_change_the_same_tokens) {
  expect_alike([](const std::shared_ptr<const Decoder>& decoder) {
    const auto vocabulary = static_cast<size_t>(decoder->vocabulary());
    Generator generator(decoder);
    generator.add(std::vector<Token>{1, 5, 9}, sampled(3));
    generator.add(std::vector<Token>{1, 4}, sampled(4));
    generator.generate_next_token();
    std::vector<uint32_t> mask((vocabulary + 31) / 32);
    mask[0] = 0xF0;
    generator.set_token_mask(0, mask);
    generator.generate_next_token();
    generator.compute_logits();
    std::vector<float> logits(generator.logits(1).begin(), generator.logits(1).end());
    logits[11] += 40;
    generator.set_logits(1, logits);
    generator.generate_next_token();
    generator.set_hook([](size_t, std::span<const Token>, std::span<float> own) { own[13] += 40; });
    generator.generate_next_token();
    generator.set_hook({});
    Lists all = finish(generator);
    EXPECT_TRUE(all[0][4] >= 4 && all[0][4] < 8);
    EXPECT_EQ(all[1][4], 11);
    EXPECT_EQ(all[0][6], 13);
    return all;
  });
}

TEST_P(SimGenerator, a_cancelled_step_changes_nothing) {
  expect_alike([](const std::shared_ptr<const Decoder>& decoder) {
    Generator generator(decoder);
    generator.add(std::vector<Token>{1, 5, 9}, sampled(3));
    generator.generate_next_token();
    CancelToken cancel;
    cancel.cancel();
    EXPECT_THROW(generator.generate_next_token(&cancel), Error);
    return finish(generator);
  });
}

TEST_P(SimGenerator, a_limit_of_memory_refuses_a_prompt_and_keeps_the_others) {
  for (const bool mixed : {false, true}) {
    const auto free = open(test::sim_target(mixed, test::kSimSeeds[0]));
    const int64_t limit = free->size().state_bytes(48);
    Generator generator(open(test::sim_target(mixed, test::kSimSeeds[0]), limit));
    generator.add(std::vector<Token>{1, 5, 9}, sampled(3));
    generator.generate_next_token();
    try {
      generator.add(std::vector<Token>(100, 2), sampled(4));
      FAIL() << "expected an error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
    }
    Generator alone(free);
    alone.add(std::vector<Token>{1, 5, 9}, sampled(3));
    EXPECT_EQ(finish(generator), finish(alone));
  }
}

INSTANTIATE_TEST_SUITE_P(folders, SimGenerator,
                         testing::Values("llm/stories260k-onnx", "zoo/llama/fp32",
                                         "zoo/gemma2/fp32", "zoo/lfm2/fp32", "zoo/gpt_oss/fp32"),
                         [](const testing::TestParamInfo<std::string_view>& one) {
                           std::string name(one.param);
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace lathe::llm
