// SPDX-License-Identifier: MIT
// Decoders on the CPU's kernels, which read paged KV caches in place.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/thread_pool.h"
#include "llm/model/decoder.h"

namespace lathe::llm {
namespace {

constexpr int64_t kRows = 127;

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class CpuDecoderTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (find_target("cpu") == nullptr) GTEST_SKIP() << "target 'cpu' is unavailable";
    folder_ = std::string("../shared/models/zoo/") + GetParam() + "/fp32";
    if (!std::filesystem::exists(folder_)) GTEST_SKIP() << "missing " << folder_;
    const Decoder probe(folder_);
    for (int64_t i = 0; i < kRows; ++i)
      prompt_.push_back(static_cast<Token>((i * 37 + 11) % 500 + 5));
  }

  std::shared_ptr<const Decoder> open(ThreadPool* pool = nullptr, int64_t page_slots = 16,
                                      const char* target = "cpu") const {
    DecoderOptions options;
    options.target = find_target(target);
    options.pool = pool;
    options.page_slots = page_slots;
    return std::make_shared<const Decoder>(folder_, options);
  }

  // Logits of all tokens, run in parts of this size.
  std::vector<float> run(const Decoder& decoder, std::span<const Token> tokens,
                         size_t part = kRows) const {
    Sequence sequence = decoder.new_sequence();
    std::vector<float> all;
    for (size_t at = 0; at < tokens.size(); at += part) {
      const StepRequest request{&sequence, tokens.subspan(at, std::min(part, tokens.size() - at)),
                                LogitPositions::all()};
      const Tensor logits = decoder.step({&request, 1});
      all.insert(all.end(), logits.as<float>(), logits.as<float>() + logits.count());
    }
    return all;
  }

  std::string folder_;
  std::vector<Token> prompt_;
};

TEST_P(CpuDecoderTest, attends_to_pages_with_its_own_kernel) {
  const auto decoder = open();
  int64_t attentions = 0, own = 0;
  for (const Launch& launch : decoder->plan().modules.front().launches) {
    if (launch.instruction == nullptr) continue;
    if (launch.instruction->op().name != "sequence_attention") continue;
    ++attentions;
    own += launch.kernel->name() == "cpu.sequence_attention" ? 1 : 0;
  }
  EXPECT_GT(attentions, 0);
  EXPECT_EQ(own, attentions);
}

TEST_P(CpuDecoderTest, agrees_with_the_reference) {
  const std::vector<float> expected = run(*open(nullptr, 16, "ref"), prompt_);
  const std::vector<float> found = run(*open(), prompt_);
  ASSERT_EQ(found.size(), expected.size());
  float largest = 0, difference = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  }
  EXPECT_LE(difference, 1e-4F * largest);
}

TEST_P(CpuDecoderTest, computes_the_same_bits_for_any_chunks_and_page_sizes) {
  const auto decoder = open();
  const std::vector<float> expected = run(*decoder, prompt_);
  for (const size_t part : {1, 16, 50}) {
    EXPECT_TRUE(same_bits(run(*decoder, prompt_, part), expected)) << "parts of " << part;
  }
  for (const int64_t slots : {4, 64, 128}) {
    const auto other = open(nullptr, slots);
    EXPECT_TRUE(same_bits(run(*other, prompt_), expected)) << "pages of " << slots;
    EXPECT_TRUE(same_bits(run(*other, prompt_, 7), expected)) << "pages of " << slots << ", cut";
  }
}

TEST_P(CpuDecoderTest, computes_the_same_bits_on_any_number_of_threads) {
  const std::vector<float> expected = run(*open(), prompt_);
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    const auto decoder = open(&pool);
    EXPECT_TRUE(same_bits(run(*decoder, prompt_), expected)) << threads << " threads";
    EXPECT_TRUE(same_bits(run(*decoder, prompt_, 1), expected)) << threads << " threads, by ones";
  }
}

TEST_P(CpuDecoderTest, computes_the_same_bits_alone_and_in_a_batch) {
  ThreadPool pool(2);
  const auto decoder = open(&pool);
  const auto width = static_cast<size_t>(decoder->vocabulary());
  std::vector<std::vector<float>> expected;
  std::vector<std::span<const Token>> own;
  for (size_t i = 0; i < 8; ++i) {
    const size_t count = std::min(prompt_.size() - i, i * i * 4 + 3);
    own.push_back(std::span(prompt_).subspan(i, count));
    expected.push_back(run(*decoder, own.back()));
  }
  // All but the last two tokens together, then those one by one.
  std::vector<Sequence> sequences(8, decoder->new_sequence());
  std::vector<std::vector<float>> found(8);
  for (size_t step = 0; step < 3; ++step) {
    std::vector<StepRequest> requests;
    for (size_t i = 0; i < 8; ++i) {
      const size_t most = own[i].size() - 2;
      const auto part = step == 0 ? own[i].first(most) : own[i].subspan(most + step - 1, 1);
      requests.push_back({&sequences[i], part, LogitPositions::all()});
    }
    const Tensor logits = decoder->step(requests);
    const float* at = logits.as<float>();
    for (size_t i = 0; i < 8; ++i) {
      const size_t count = requests[i].tokens.size() * width;
      found[i].insert(found[i].end(), at, at + count);
      at += count;
    }
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(same_bits(found[i], expected[i])) << "sequence " << i;
}

INSTANTIATE_TEST_SUITE_P(types, CpuDecoderTest,
                         testing::Values("llama", "lfm2", "gemma2", "gpt_oss", "qwen3"),
                         [](const auto& type) { return std::string(type.param); });

}  // namespace
}  // namespace lathe::llm
