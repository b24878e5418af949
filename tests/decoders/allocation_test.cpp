// SPDX-License-Identifier: MIT
// Decode steps allocate nothing but KV cache pages: this program counts every malloc during a step.
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "llm/model/generator.h"
#include "llm/tokenizer/load.h"
#include "tests/decoders/made_decoder.h"
#include "tests/support/allocations.h"

namespace lathe::llm {
namespace {

constexpr int64_t kPageSlots = 16;  // thread-local scratch doubles below this size
constexpr int64_t kSteps = 200;

using test::allocations_of;

struct Case {
  const char* target;
  int64_t window;  // -1: the decoder of examples/counting
};

class AllocationTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!test::kCountsAllocations) GTEST_SKIP() << "the sanitizers' allocator is not counted";
    if (find_target(GetParam().target) == nullptr) {
      GTEST_SKIP() << "target '" << GetParam().target << "' is unavailable";
    }
    if (GetParam().window < 0) {
      DecoderOptions options;
      options.target = find_target(GetParam().target);
      options.memory_limit = 1 << 30;  // checked where pages are allocated
      decoder_ = std::make_shared<const Decoder>("examples/counting", options);
    } else {
      decoder_ = make_decoder(GetParam().window, GetParam().target);
    }
    if (decoder_ == nullptr) GTEST_SKIP() << "make_decoder.py requires build/venv";
    ASSERT_TRUE(decoder_->packed());
    ASSERT_EQ(decoder_->layout().page_slots(), kPageSlots);
  }

  // Sequences of 3, 4, … tokens, which allocate pages at different steps.
  void decode(size_t count) {
    std::vector<Sequence> sequences(count, decoder_->new_sequence());
    std::vector<Token> tokens(count);
    std::vector<StepRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      const std::vector<Token> prompt(3 + i, static_cast<Token>(i + 1));
      const StepRequest request{&sequences[i], prompt};
      decoder_->step({&request, 1});
      requests.push_back({&sequences[i], std::span<const Token>(&tokens[i], 1)});
    }
    StepLogits logits;
    int64_t quiet = 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      bool adds_page = false;
      for (size_t i = 0; i < count; ++i) {
        adds_page = adds_page || sequences[i].length() % kPageSlots == 0;
        tokens[i] = static_cast<Token>((step * 7 + static_cast<int64_t>(i)) % 14);
      }
      const void* before = logits.view().data;
      const int64_t made = allocations_of([&] { decoder_->step(requests, logits); });
      if (step == 0) {  // first step of this size
        EXPECT_GT(made, 0);
        continue;
      }
      EXPECT_EQ(logits.view().data, before);
      if (adds_page || sequences[0].length() < kPageSlots) continue;
      EXPECT_EQ(made, 0) << "step " << step << " of " << count << " sequences";
      ++quiet;
    }
    EXPECT_GE(quiet, kSteps / 2);
  }

  // Three prompts of equal lengths, token by token, without end token.
  void generate(search::SearchOptions options,
                std::shared_ptr<const tokenizer::Tokenizer> tokenizer = nullptr) {
    constexpr size_t kPrompts = 3;
    Generator generator(decoder_, std::move(tokenizer));
    options.min_length = kSteps + 30;
    for (size_t i = 0; i < kPrompts; ++i) {
      generator.add(std::vector<Token>{static_cast<Token>(1 + i), 2, 3}, options);
    }
    using Places = std::array<std::pair<const void*, const void*>, kPrompts>;
    const auto places = [&] {
      Places all;
      for (size_t i = 0; i < kPrompts; ++i) {
        all[i] = {generator.tokens(i).data(), generator.text(i).data()};
      }
      return all;
    };
    int64_t quiet = 0;
    for (int64_t step = 0; step < kSteps; ++step) {
      const size_t length = generator.tokens(0).size();
      const Places before = places();
      const int64_t made = allocations_of([&] { generator.generate_next_token(); });
      // Lists of generated tokens double at times.
      const bool grows = before != places() || (options.log_probabilities > 0 &&
                                                std::has_single_bit(static_cast<uint64_t>(step)));
      const bool adds_page = (length - 1) % kPageSlots == 0;
      if (length < kPageSlots || grows || adds_page) continue;
      EXPECT_EQ(made, 0) << "token " << length;
      ++quiet;
    }
    EXPECT_GE(quiet, kSteps * 2 / 3);
  }

  std::shared_ptr<const Decoder> decoder_;
};

TEST_P(AllocationTest, a_step_of_one_sequence_allocates_nothing) { decode(1); }

TEST_P(AllocationTest, a_step_of_several_sequences_allocates_nothing) { decode(5); }

TEST_P(AllocationTest, a_greedy_generator_allocates_nothing) { generate({}); }

TEST_P(AllocationTest, sampling_and_penalties_allocate_nothing) {
  search::SearchOptions options;
  options.do_sample = true;
  options.random_seed = 3;
  options.temperature = 0.8;
  options.top_k = 12;
  options.top_p = 0.95;
  options.repetition_penalty = 1.1;
  options.presence_penalty = 0.1;
  options.frequency_penalty = 0.05;
  options.bad_words_ids = {{3, 4}, {5}};
  options.suppress_tokens = {6};
  options.sequence_bias = {{{7, 8}, -1}};
  options.logit_bias = {{9, 1}};
  generate(options);
}

TEST_P(AllocationTest, other_cutoffs_allocate_nothing) {
  search::SearchOptions options;
  options.do_sample = true;
  options.random_seed = 4;
  options.top_k = 0;
  options.min_p = 0.001;
  options.typical_p = 0.95;
  options.epsilon_cutoff = 1e-4;
  options.eta_cutoff = 1e-4;
  generate(options);
}

TEST_P(AllocationTest, log_probabilities_allocate_nothing) {
  search::SearchOptions options;
  options.do_sample = true;
  options.log_probabilities = 4;
  generate(options);
}

TEST_P(AllocationTest, text_allocates_nothing) {
  search::SearchOptions options;
  options.do_sample = true;
  options.random_seed = 5;
  options.stop_strings = {"never to be seen", "nor this"};
  generate(options, tokenizer::load_tokenizer("examples/tokenizer"));
  if (GetParam().window < 0) generate(options, tokenizer::load_tokenizer("examples/counting"));
}

// Diverged beams write to their own pages and reuse the lists of earlier steps.
TEST_P(AllocationTest, beams_allocate_only_where_lists_grow) {
  search::SearchOptions options;
  options.num_beams = 3;
  options.early_stopping = search::EarlyStopping::never;
  options.min_length = kSteps + 30;
  Generator generator(decoder_);
  for (int32_t i = 0; i < 2; ++i) generator.add(std::vector<Token>{1 + i, 2, 3}, options);
  int64_t quiet = 0;
  for (int64_t step = 0; step < kSteps; ++step) {
    const auto length = static_cast<int64_t>(generator.tokens(0).size());
    const int64_t reserved = decoder_->layout().reserved_bytes();
    const int64_t made = allocations_of([&] { generator.generate_next_token(); });
    ASSERT_EQ(std::ssize(generator.tokens(0)), length + 1);
    // Token lists double in both halves of the beams' memory, and so does the list of all search
    // nodes.
    const auto doubles = [](int64_t count) { return std::has_single_bit(uint64_t(count)); };
    const int64_t nodes = options.num_beams * step;
    const bool grows = doubles(length) || doubles(length + 1) ||
                       std::bit_ceil(uint64_t(nodes)) < uint64_t(nodes + options.num_beams);
    const bool adds_page =
        (length - 1) % kPageSlots == 0 || decoder_->layout().reserved_bytes() != reserved;
    if (length < kPageSlots || grows || adds_page) continue;
    EXPECT_EQ(made, 0) << "token " << length;
    ++quiet;
  }
  EXPECT_GE(quiet, kSteps * 2 / 3);
}

INSTANTIATE_TEST_SUITE_P(, AllocationTest,
                         testing::Values(Case{"ref", -1}, Case{"cpu", -1}, Case{"ref", 0},
                                         Case{"cpu", 0}, Case{"ref", 64}, Case{"cpu", 64}),
                         [](const testing::TestParamInfo<Case>& each) {
                           const int64_t window = each.param.window;
                           return std::string(each.param.target) + (window < 0    ? "_counting"
                                                                    : window == 0 ? "_append"
                                                                                  : "_window");
                         });

}  // namespace
}  // namespace lathe::llm
