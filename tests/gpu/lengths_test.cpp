// SPDX-License-Identifier: MIT
// Prompts of many lengths are run by the code of the first.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/os_environment.h"
#include "llm/model/generator.h"
#include "targets/gpu/target.h"
#include "tests/support/sanitized.h"

namespace lathe::gpu {
namespace {

// Under sanitizers, which are slow, every tenth length.
constexpr int kStep = test::kSanitized ? 10 : 1;

TEST(GpuLengths, NothingIsCompiledAfterTheFirstPrompt) {
  if (environment_variable("TEST_GPU")) GTEST_SKIP() << "a test of gpu:host";
  const std::string folder = "../shared/models/zoo/llama/fp32";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  const auto target = std::make_shared<GpuTarget>("gpu:host", make_host_driver(), 0, "");
  llm::DecoderOptions options;
  options.target = target;
  const auto decoder = std::make_shared<const llm::Decoder>(folder, options);
  const auto generate = [&](int length) {
    std::vector<llm::Token> prompt;
    for (int i = 0; i < length; ++i) prompt.push_back(3 + i * 7 % 90);
    llm::Generator generator(decoder);
    search::SearchOptions search;
    search.min_new_tokens = search.max_new_tokens = 2;
    generator.add(prompt, search);
    int tokens = 0;
    while (generator.generate_next_token()) ++tokens;
    EXPECT_GT(tokens, 0);
  };
  constexpr int kMost = 51;
  generate(kMost);
  CodeStore& code = target->gpu_device().code();
  code.wait_idle();
  const int64_t before = code.compiled();
  EXPECT_GT(before, 0);
  for (int length = 1; length < kMost; length += kStep) generate(length);
  code.wait_idle();
  EXPECT_EQ(code.compiled(), before);
}

}  // namespace
}  // namespace lathe::gpu
