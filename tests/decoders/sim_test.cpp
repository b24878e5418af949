// SPDX-License-Identifier: MIT
// Decoders on the simulated device: the same logits as the reference, to the bit unless every third
// op runs on the host.
#include <gtest/gtest.h>

#include <filesystem>

#include "llm/model/decoder.h"
#include "tests/support/sim_target.h"

namespace lathe::llm {
namespace {

struct Case {
  std::string_view name;
  std::string_view folder;
};

class SimDecoder : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    folder_ = fmt::format("../shared/models/{}", GetParam().folder);
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "missing " << folder_;
  }
  std::unique_ptr<Decoder> open(std::shared_ptr<const Target> target) const {
    DecoderOptions options;
    options.target = std::move(target);
    options.page_slots = 4;
    return std::make_unique<Decoder>(folder_, options);
  }
  static std::vector<float> step(const Decoder& decoder, Sequence& sequence,
                                 std::vector<Token> tokens) {
    const StepRequest request{&sequence, tokens, LogitPositions::all()};
    const Tensor logits = decoder.step({&request, 1});
    const auto values = logits.elements<float>();
    return {values.begin(), values.end()};
  }
  // A prompt in parts, a fork that writes beside its origin, and a failed step.
  static std::vector<std::vector<float>> run(const Decoder& decoder) {
    std::vector<std::vector<float>> all;
    Sequence first = decoder.new_sequence();
    all.push_back(step(decoder, first, {1, 5, 9, 3, 7, 2}));
    all.push_back(step(decoder, first, {4}));
    Sequence fork = first;
    all.push_back(step(decoder, fork, {8, 6}));
    all.push_back(step(decoder, first, {3, 3, 2}));
    CancelToken cancelled;
    cancelled.cancel();
    const std::vector<Token> token = {5};
    const StepRequest lost{&first, token};
    EXPECT_THROW(decoder.step({&lost, 1}, &cancelled), Error);
    const std::vector<Token> a = {2}, b = {7, 1};
    const StepRequest both[] = {{&first, a}, {&fork, b}};
    const Tensor logits = decoder.step(both);
    const auto values = logits.elements<float>();
    all.emplace_back(values.begin(), values.end());
    return all;
  }

  std::string folder_;
};

TEST_P(SimDecoder, agrees_with_the_reference) {
  const auto expected = run(*open(find_target("ref")));
  for (const bool mixed : {false, true}) {
    for (const uint64_t seed : test::kSimSeeds) {
      EXPECT_EQ(run(*open(test::sim_target(mixed, seed))), expected) << mixed << " " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    folders, SimDecoder,
    testing::Values(Case{"stories260k", "llm/stories260k-onnx"},
                    Case{"gpt2", "genai/hf-internal-testing/tiny-random-gpt2-fp32"},
                    Case{"lfm2", "genai/hf-internal-testing/tiny-random-lfm2-fp32"},
                    Case{"zoo_llama", "zoo/llama/fp32"}, Case{"zoo_gemma2", "zoo/gemma2/fp32"},
                    Case{"zoo_lfm2", "zoo/lfm2/fp32"}, Case{"zoo_gpt_oss", "zoo/gpt_oss/fp32"}),
    [](const testing::TestParamInfo<Case>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace lathe::llm
