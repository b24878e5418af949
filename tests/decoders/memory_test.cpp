// SPDX-License-Identifier: MIT
// Memory of sequences: pages that beams share, windows that evict, and memory that is released.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "llm/model/generator.h"
#include "llm/model/sequence_file.h"
#include "llm/search/log_probabilities.h"
#include "llm/search/logits_processors.h"
#include "tests/decoders/made_decoder.h"

namespace lathe::llm {
namespace {

const std::string kStories = "../shared/models/llm/stories260k-onnx";

// Sanitizers delay the release of memory and are slow.
bool instrumented() {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

int64_t live_pages(const CacheLayout& layout) {
  int64_t pages = 0;
  for (const auto& group : layout.groups()) pages += group.pool->live_pages();
  return pages;
}

// Pages of 16 slots that the sequences need if equal prefixes share theirs.
size_t trie_pages(const std::vector<std::vector<Token>>& sequences) {
  std::set<std::vector<Token>> pages;
  for (const std::vector<Token>& tokens : sequences) {
    for (size_t begin = 0; begin < tokens.size(); begin += 16) {
      const auto end = static_cast<int64_t>(std::min(begin + 16, tokens.size()));
      pages.insert({tokens.begin(), tokens.begin() + end});
    }
  }
  return pages.size();
}

class BeamMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kStories)) GTEST_SKIP() << "missing " << kStories;
    DecoderOptions options;
    options.overlay = R"({"model": {"decoder": {"filename": "model_genai.onnx"}}})";
    decoder_ = std::make_shared<const Decoder>(kStories, options);
    // A story of 448 tokens (fewer under sanitizers), sometimes sampled against the most likely
    // token.
    search::SearchOptions sampled;
    sampled.do_sample = true;
    sampled.random_seed = 3;
    sampled.max_length = prompt_length_;
    sampled.min_length = prompt_length_;
    Generator story(decoder_);
    story.add(std::vector<Token>{1, 403, 407}, sampled);
    while (story.generate_next_token()) {
    }
    prompt_ = story.outputs(0)[0].tokens;
    ASSERT_EQ(std::ssize(prompt_), prompt_length_);
    options_.num_beams = 4;
    options_.num_return_sequences = 4;
    options_.max_length = prompt_length_ + new_tokens_;
    options_.min_length = options_.max_length;
    for (const int64_t token : decoder_->config().end_tokens) {
      ends_.push_back(static_cast<Token>(token));
    }
  }

  // Repeats the search over sequences that share nothing.
  std::vector<search::Hypothesis> search_with_copies() const {
    struct Beam {
      Sequence sequence;
      std::vector<Token> tokens;
    };
    const auto width = static_cast<size_t>(decoder_->vocabulary());
    search::BeamSearch beams(options_, ends_, prompt_length_, options_.max_length);
    std::vector<Beam> live;
    live.push_back({decoder_->new_sequence(), prompt_});
    while (!beams.done()) {
      std::vector<StepRequest> requests;
      for (Beam& beam : live) {
        const auto length = static_cast<size_t>(beam.sequence.length());
        requests.push_back({&beam.sequence, std::span<const Token>(beam.tokens).subspan(length)});
      }
      const Tensor logits = decoder_->step(requests);
      std::vector<std::span<const float>> views;
      for (size_t i = 0; i < live.size(); ++i) {
        const std::span<float> own(logits.as<float>() + i * width, width);
        search::to_log_probabilities(own);
        apply_rules(own, {live[i].tokens, prompt_.size()}, options_, ends_, options_.max_length);
        views.emplace_back(own);
      }
      std::vector<Beam> next;
      for (const auto& [parent, token] : beams.step(views)) {
        const Sequence& from = live[parent].sequence;
        next.push_back({restore_sequence(from.shared_layout(), save_sequence(from), 512),
                        live[parent].tokens});
        next.back().tokens.push_back(token);
      }
      live = std::move(next);
    }
    return beams.finish();
  }

  std::shared_ptr<const Decoder> decoder_;
  int64_t prompt_length_ = instrumented() ? 96 : 448;
  int64_t new_tokens_ = instrumented() ? 20 : 64;
  std::vector<Token> prompt_;
  search::SearchOptions options_;
  std::vector<Token> ends_;
};

TEST_F(BeamMemory, live_pages_are_those_of_the_trie_of_tokens) {
  ASSERT_EQ(live_pages(decoder_->layout()), 0);
  std::vector<Output> outputs;
  {
    Generator generator(decoder_);
    generator.add(prompt_, options_);
    std::vector<std::vector<Token>> beams;
    std::vector<int64_t> pages;
    int64_t diverged = 0;
    generator.set_hook([&](size_t, std::span<const Token> tokens, std::span<float>) {
      beams.emplace_back(tokens.begin(), tokens.end());
      pages.push_back(live_pages(decoder_->layout()));
    });
    for (int64_t step = 0; step < new_tokens_; ++step) {
      beams.clear();
      pages.clear();
      const bool more = generator.generate_next_token();
      EXPECT_EQ(more, step + 1 < new_tokens_) << step;
      ASSERT_EQ(beams.size(), step == 0 ? 1U : 4U);
      EXPECT_EQ(pages.front(), static_cast<int64_t>(trie_pages(beams))) << "step " << step;
      diverged +=
          trie_pages(beams) > (prompt_.size() + static_cast<size_t>(step) + 15) / 16 ? 1 : 0;
    }
    EXPECT_GT(diverged, new_tokens_ / 3);  // beams had their own pages
    outputs = generator.outputs(0);
  }
  EXPECT_EQ(live_pages(decoder_->layout()), 0);
  const std::vector<search::Hypothesis> expected = search_with_copies();
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_TRUE(std::ranges::equal(outputs[i].generated(), expected[i].tokens)) << i;
    EXPECT_EQ(outputs[i].score, expected[i].score) << i;
  }
}

// Resident memory in bytes.
int64_t resident() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0;
  int64_t pages = 0;
  file >> total >> pages;
  return pages * 4096;
}

Token token_at(int64_t position) { return static_cast<Token>((position * 7 + position / 5) % 31); }

void run(const Decoder& decoder, Sequence& sequence, int64_t count) {
  std::vector<Token> tokens;
  for (int64_t i = 0; i < count; ++i) tokens.push_back(token_at(sequence.length() + i));
  const StepRequest request{&sequence, tokens};
  decoder.step({&request, 1});
}

TEST(Memory, a_window_holds_its_positions_and_a_page_at_any_length) {
  const auto decoder = make_decoder(64);
  if (decoder == nullptr) GTEST_SKIP() << "make_decoder.py requires build/venv";
  const CacheLayout& layout = decoder->layout();
  ASSERT_EQ(layout.groups().size(), 1U);
  EXPECT_EQ(layout.groups()[0].window, 64);
  const int64_t before = layout.live_bytes();
  Sequence sequence = decoder->new_sequence();
  const int64_t page = layout.groups()[0].page_bytes;
  EXPECT_EQ(page, 16 * layout.bytes_per_token());
  int64_t reserved = 0;
  int64_t memory = 0;
  const int64_t count = instrumented() ? 1000 : 10000;
  for (int64_t i = 0; i < count; ++i) {
    run(*decoder, sequence, 1);
    const int64_t positions = std::min<int64_t>(sequence.length(), 64);
    ASSERT_LE(sequence.committed_bytes(), positions * layout.bytes_per_token() + page) << i;
    ASSERT_EQ(sequence.committed_bytes(), layout.live_bytes() - before);
    if (i == count / 5) reserved = layout.reserved_bytes();
    if (i == count / 5) memory = resident();
  }
  EXPECT_EQ(layout.reserved_bytes(), reserved);
  if (!instrumented()) {
    EXPECT_LE(resident() - memory, 1 << 20);
  }
}

TEST(Memory, caches_grow_by_pages_and_are_released) {
  const auto decoder = make_decoder(0);
  if (decoder == nullptr) GTEST_SKIP() << "make_decoder.py requires build/venv";
  const CacheLayout& layout = decoder->layout();
  {
    Sequence first = decoder->new_sequence();
    run(*decoder, first, 100);
  }
  const int64_t memory = resident();
  int64_t grown = 0;
  int64_t least = 0;
  {
    Sequence sequence = decoder->new_sequence();
    const int64_t page = layout.groups()[0].page_bytes;
    // Token by token: a step allocates one page when the last one is full, and nothing else.
    int64_t live = 0;
    for (int64_t i = 0; i < 200; ++i) {
      run(*decoder, sequence, 1);
      EXPECT_EQ(layout.live_bytes() - live, i % 16 == 0 ? page : 0) << i;
      live = layout.live_bytes();
    }
    const int64_t count = instrumented() ? 1600 : 10000;
    while (sequence.length() < count) {
      run(*decoder, sequence, std::min<int64_t>(100, count - sequence.length()));
      ASSERT_LE(sequence.committed_bytes(), sequence.length() * layout.bytes_per_token() + page);
    }
    EXPECT_EQ(sequence.committed_bytes(), count / 16 * page);
    least = count * layout.bytes_per_token() * 9 / 10;
    grown = resident() - memory;
  }
  EXPECT_EQ(layout.live_bytes(), 0);
  EXPECT_LE(layout.reserved_bytes(), 1 << 20);
  if (!instrumented()) EXPECT_GE(grown, least);
  if (!instrumented()) {
    EXPECT_LE(resident() - memory, 1 << 20);
  }
}

TEST(Memory, a_thousand_generators_leave_no_growth) {
  const auto decoder = make_decoder(64);
  if (decoder == nullptr) GTEST_SKIP() << "make_decoder.py requires build/venv";
  search::SearchOptions options;
  options.max_new_tokens = 6;
  options.min_length = 1000;
  int64_t memory = 0;
  int64_t reserved = 0;
  for (int64_t i = 0; i < (instrumented() ? 250 : 1000); ++i) {
    Generator generator(decoder);
    std::vector<Token> prompt;
    for (int64_t at = 0; at < 20 + i % 7; ++at) prompt.push_back(token_at(at + i));
    generator.add(prompt, options);
    while (generator.generate_next_token()) {
    }
    ASSERT_EQ(generator.outputs(0)[0].generated().size(), 6U);
    if (i == 200) memory = resident();
    if (i == 200) reserved = decoder->layout().reserved_bytes();
  }
  EXPECT_EQ(decoder->layout().live_bytes(), 0);
  EXPECT_EQ(decoder->layout().reserved_bytes(), reserved);
  if (!instrumented()) {
    EXPECT_LE(resident() - memory, 1 << 20);
  }
}

TEST(Memory, many_generators_at_once_release_their_memory) {
  const auto decoder = make_decoder(64);
  if (decoder == nullptr) GTEST_SKIP() << "make_decoder.py requires build/venv";
  const CacheLayout& layout = decoder->layout();
  std::vector<Sequence> sequences(300, decoder->new_sequence());
  run(*decoder, sequences[0], 70);
  const int64_t memory = resident();
  for (Sequence& sequence : sequences) run(*decoder, sequence, 70);
  EXPECT_GE(layout.live_bytes(), 300 * 64 * layout.bytes_per_token());
  // Releases out of order, so that slabs empty in the middle.
  for (size_t i = 0; i < sequences.size(); i += 2) sequences[i] = decoder->new_sequence();
  for (Sequence& sequence : sequences) sequence = decoder->new_sequence();
  EXPECT_EQ(layout.live_bytes(), 0);
  EXPECT_LE(layout.reserved_bytes(), 1 << 20);
  if (!instrumented()) {
    EXPECT_LE(resident() - memory, 1 << 20);
  }
}

}  // namespace
}  // namespace lathe::llm
