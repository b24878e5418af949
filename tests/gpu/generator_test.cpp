// SPDX-License-Identifier: MIT
// Generation on the host driver: samples, beams, forks and cancelled steps have the reference's
// tokens in every order of threads; little crosses between device and host; all is given back.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "tests/support/gpu_host_target.h"
#include "tests/support/sampled_generation.h"

namespace lathe::llm {
namespace {

using test::finish;
using test::kNewTokens;
using test::sampled;
using Lists = test::TokenLists;

class GpuGenerator : public testing::TestWithParam<std::pair<const char*, const char*>> {
 protected:
  void SetUp() override {
    folder_ = fmt::format("../shared/models/{}", GetParam().second);
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "missing " << folder_;
  }
  std::shared_ptr<const Decoder> open(std::shared_ptr<const Target> target,
                                      Compute compute = Compute::as_model) const {
    DecoderOptions options;
    options.compute = compute;
    options.target = std::move(target);
    options.page_slots = 4;
    return std::make_shared<Decoder>(folder_, options);
  }
  // Every GPU host has the reference's results.
  template <class F>
  void expect_alike(F&& check) const {
    const auto expected = check(open(find_target("ref")));
    for (const auto& target : test::gpu_host_targets()) EXPECT_EQ(check(open(target)), expected);
  }

  std::string folder_;
};

TEST_P(GpuGenerator, SamplesAndBeamsHaveTheReferencesTokens) {
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

TEST_P(GpuGenerator, ACancelledStepChangesNothing) {
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

TEST_P(GpuGenerator, AForkWritesBesideItsOrigin) {
  expect_alike([](const std::shared_ptr<const Decoder>& decoder) {
    std::vector<Token> best;
    const auto step = [&](std::initializer_list<std::pair<Sequence*, std::vector<Token>>> parts) {
      std::vector<StepRequest> requests;
      for (const auto& [sequence, tokens] : parts) requests.push_back({sequence, tokens});
      const Tensor logits = decoder->step(requests);
      const int64_t vocabulary = decoder->vocabulary();
      for (int64_t row = 0; row < logits.count() / vocabulary; ++row) {
        const float* first = logits.as<float>() + row * vocabulary;
        best.push_back(static_cast<Token>(std::max_element(first, first + vocabulary) - first));
      }
    };
    Sequence first = decoder->new_sequence();
    step({{&first, {1, 5, 9, 3, 7, 2}}});
    Sequence fork = first;
    step({{&fork, {8, 6}}});
    step({{&first, {3, 3, 2}}});
    step({{&first, {2}}, {&fork, {7, 1}}});
    return best;
  });
}

// Logits of one token after a prompt of 100.
std::vector<float> late_logits(const Decoder& decoder) {
  Sequence sequence = decoder.new_sequence();
  std::vector<Token> prompt(100);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<Token>(3 + i * 7 % 90);
  const std::vector<Token> next{5};
  const StepRequest first{&sequence, prompt};
  decoder.step({&first, 1});
  const StepRequest second{&sequence, next};
  const Tensor found = decoder.step({&second, 1});
  return {found.as<float>(), found.as<float>() + found.count()};
}

// Products, tables and what lies between them have the type; caches keep theirs.
TEST_P(GpuGenerator, SixteenBitTypesStayNearF32) {
  if (std::string_view(GetParam().first) == "stories260k") GTEST_SKIP() << "as llama, slower";
  const std::vector<float> expected = late_logits(*open(find_target("ref")));
  float most = 0;
  for (const float x : expected) most = std::max(most, std::abs(x));
  const auto& target = test::gpu_host_targets()[0];
  for (const auto& [compute, share] : {std::pair(Compute::f16, 0.01F), {Compute::bf16, 0.05F}}) {
    const auto decoder = open(target, compute);
    const std::vector<float> found = late_logits(*decoder);
    ASSERT_EQ(found.size(), expected.size());
    float error = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      error = std::max(error, std::abs(found[i] - expected[i]));
    }
    EXPECT_GT(error, 1e-5F * most) << to_string(compute);  // it is not f32
    EXPECT_LE(error, share * most) << to_string(compute);
  }
}

TEST_P(GpuGenerator, LongSequencesAreSplitOverBlocks) {
  const std::vector<float> expected = late_logits(*open(find_target("ref")));
  for (const auto& target : test::gpu_host_targets()) {
    const std::vector<float> found = late_logits(*open(target));
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-3F) << i;
  }
}

TEST_P(GpuGenerator, LittleCrossesBetweenDeviceAndHost) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a card's driver does not count";
  const auto driver = gpu::make_host_driver();
  const GpuTarget target("gpu:host", driver, 0, gpu::CodeStore::default_folder());
  // Plans refer to the target, which outlives them.
  const std::shared_ptr<const Target> unowned(std::shared_ptr<void>(), &target);
  const int64_t at_start = gpu::live_objects(*driver);
  {
    const auto decoder = open(unowned);
    for (const bool samples : {false, true}) {
      Generator generator(decoder);
      search::SearchOptions options = samples ? sampled(3) : search::SearchOptions();
      options.repetition_penalty = 1;
      options.min_new_tokens = options.max_new_tokens = 24;
      generator.add(std::vector<Token>{1, 5, 9}, options);
      for (int i = 0; i < 4; ++i) generator.generate_next_token();
      constexpr int kSteps = 16;
      const int64_t before = gpu::crossed_bytes(*driver);
      const int64_t copies = driver->counts().copies;
      for (int i = 0; i < kSteps; ++i) generator.generate_next_token();
      // Tokens, tables and results are gathered into launches: only the logits are one copy.
      EXPECT_LE(driver->counts().copies - copies, kSteps);
      RecordProperty(samples ? "sampled" : "greedy",
                     static_cast<int>((gpu::crossed_bytes(*driver) - before) / kSteps));
      EXPECT_LE((gpu::crossed_bytes(*driver) - before) / kSteps, 512);
    }
  }
  EXPECT_LE(gpu::live_objects(*driver), at_start);
}

INSTANTIATE_TEST_SUITE_P(Folders, GpuGenerator,
                         testing::Values(std::pair("stories260k", "llm/stories260k-onnx"),
                                         std::pair("llama", "zoo/llama/fp32"),
                                         std::pair("gemma2", "zoo/gemma2/fp32")),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace lathe::llm
