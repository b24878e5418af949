// SPDX-License-Identifier: MIT
#include "llm/model/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "import/load_model.h"
#include "llm/model/checksum.h"
#include "llm/model/generator.h"
#include "llm/model/sequence_file.h"
#include "llm/model/sequence_tensors.h"
#include "runtime/session.h"
#include "targets/compile.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {
namespace {

using Bytes = std::vector<std::byte>;

class SequenceTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    folder_ = zoo_folder(GetParam());
    if (folder_.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/" << GetParam();
    folder_ += "/fp32";
    decoder_ = std::make_shared<const Decoder>(folder_);
    for (int i = 0; i < 70; ++i) tokens_.push_back((i * 37 + 11) % 500 + 5);
  }

  static std::vector<float> run(const Decoder& decoder, Sequence& sequence,
                                std::span<const Token> tokens) {
    const StepRequest request{&sequence, tokens, LogitPositions::all()};
    const Tensor logits = decoder.step({&request, 1});
    return {logits.as<float>(), logits.as<float>() + logits.count()};
  }
  std::span<const Token> tokens(size_t begin, size_t end) const {
    return std::span(tokens_).subspan(begin, end - begin);
  }
  Sequence after(size_t count) const {
    Sequence sequence = decoder_->new_sequence();
    if (count > 0) run(*decoder_, sequence, tokens(0, count));
    return sequence;
  }
  static bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }
  bool windowed() const {
    const auto& groups = decoder_->layout().groups();
    return std::ranges::any_of(groups, [](const auto& group) { return group.window > 0; });
  }

  std::string folder_;
  std::shared_ptr<const Decoder> decoder_;
  std::vector<Token> tokens_;
};

TEST_P(SequenceTest, is_restored_as_it_was_saved) {
  Sequence sequence = after(50);
  const Bytes saved = save_sequence(sequence);
  const std::vector<float> expected = run(*decoder_, sequence, tokens(50, 70));
  Sequence restored = restore_sequence(decoder_->new_sequence().shared_layout(), saved, 128);
  EXPECT_EQ(restored.length(), 50);
  EXPECT_EQ(save_sequence(restored), saved);
  EXPECT_TRUE(same_bits(run(*decoder_, restored, tokens(50, 70)), expected));
  // Another process may use another page size.
  DecoderOptions options;
  options.page_slots = 7;
  const Decoder other(folder_, options);
  Sequence elsewhere = restore_sequence(other.new_sequence().shared_layout(), saved, 128);
  EXPECT_TRUE(same_bits(run(other, elsewhere, tokens(50, 70)), expected));
}

TEST_P(SequenceTest, keeps_its_checkpoints_when_saved) {
  Sequence sequence = after(20);
  sequence.checkpoint();
  run(*decoder_, sequence, tokens(20, 60));
  Sequence restored = restore_sequence(sequence.shared_layout(), save_sequence(sequence), 128);
  EXPECT_EQ(restored.checkpoints().size(), sequence.checkpoints().size());
  EXPECT_EQ(restored.rewind(20), 20);
  Sequence plain = after(20);
  EXPECT_TRUE(
      same_bits(run(*decoder_, restored, tokens(20, 50)), run(*decoder_, plain, tokens(20, 50))));
}

TEST_P(SequenceTest, refuses_bytes_that_are_damaged_or_foreign) {
  const std::shared_ptr<const CacheLayout> layout = decoder_->new_sequence().shared_layout();
  Sequence sequence = after(9);
  sequence.checkpoint();
  run(*decoder_, sequence, tokens(9, 12));
  const Bytes saved = save_sequence(sequence);
  const auto refused = [&](const Bytes& bytes) {
    try {
      restore_sequence(layout, bytes, 128);
    } catch (const Error& error) {
      return error.kind() == ErrorKind::invalid_argument;
    }
    return false;
  };
  const size_t step = std::max<size_t>(saved.size() / 100, 1);
  for (size_t at = 0; at < saved.size(); at += at < 200 ? 1 : step) {
    Bytes bytes = saved;
    bytes[at] ^= std::byte{0x10};
    EXPECT_TRUE(refused(bytes)) << "byte " << at;
    // With a valid checksum: every field is checked, or is a value of a state.
    const uint64_t sum = checksum(std::span(bytes).first(bytes.size() - 8));
    for (size_t i = 0; i < 8; ++i) bytes[bytes.size() - 8 + i] = std::byte(sum >> (8 * i));
    if (at < 32) {
      EXPECT_TRUE(refused(bytes)) << "byte " << at;
    } else {
      refused(bytes);
    }
    EXPECT_TRUE(refused({saved.begin(), saved.begin() + static_cast<int64_t>(at)})) << at;
  }
  Bytes longer = saved;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(refused(longer));
  EXPECT_THROW(restore_sequence(layout, saved, 11), Error);
  std::vector<SequenceState> states = layout->states();
  states.pop_back();
  EXPECT_THROW(restore_sequence(std::make_shared<CacheLayout>(states, 16), saved, 128), Error);
}

TEST_P(SequenceTest, continues_from_the_files_tensors) {
  Sequence sequence = after(50);
  std::vector<StateTensor> tensors = export_states(sequence);
  const std::vector<float> expected = run(*decoder_, sequence, tokens(50, 60));
  for (StateTensor& tensor : tensors) tensor.past.clear();
  std::ranges::reverse(tensors);
  const std::shared_ptr<const CacheLayout> layout = sequence.shared_layout();
  Sequence again = import_states(layout, 50, tensors);
  EXPECT_TRUE(same_bits(run(*decoder_, again, tokens(50, 60)), expected));
  if (!windowed()) {
    EXPECT_THROW(import_states(layout, 51, tensors), Error);
  }
  std::vector<StateTensor> fewer(tensors.begin() + 1, tensors.end());
  EXPECT_THROW(import_states(layout, 50, fewer), Error);
  fewer.push_back(tensors[1]);
  EXPECT_THROW(import_states(layout, 50, fewer), Error);
  tensors[0].tensor = Tensor(ElementType::f32, {1, 2, 3, 4});
  EXPECT_THROW(import_states(layout, 50, tensors), Error);
}

// Runs the file's program directly, with past inputs and present outputs.
TEST_P(SequenceTest, exports_what_the_file_continues_from) {
  Sequence sequence = after(25);
  const std::vector<StateTensor> tensors = export_states(sequence);
  const std::vector<float> expected = run(*decoder_, sequence, tokens(25, 29));
  CompileOptions options;
  const auto plan = compile(load_model(folder_ + "/model.onnx"), options);
  std::vector<Box> inputs;
  for (const auto& parameter : plan->program->main().parameters()) {
    const auto given = std::ranges::find(tensors, parameter->name(), &StateTensor::past);
    if (given != tensors.end()) {
      inputs.emplace_back(given->tensor);
      continue;
    }
    Tensor values(ElementType::i64, parameter->name() == "attention_mask" ? Dims{1, 29}
                                    : parameter->type().rank() == 3       ? Dims{3, 1, 4}
                                                                          : Dims{1, 4});
    for (int64_t i = 0; i < values.count(); ++i) {
      int64_t value = 1;
      if (parameter->name() == "position_ids") value = 25 + i % 4;
      if (parameter->name() == "input_ids") value = tokens_[static_cast<size_t>(25 + i)];
      values.as<int64_t>()[i] = value;
    }
    inputs.emplace_back(std::move(values));
  }
  Session session(plan);
  const std::vector<Box> results = session.run(inputs);
  std::vector<StateTensor> presents;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = plan->program->main().result_names()[i];
    if (name != "logits") {
      presents.push_back({"", name, results[i].tensor()});
      continue;
    }
    const Tensor logits = results[i].tensor().dense();
    ASSERT_EQ(logits.count(), std::ssize(expected));
    for (size_t at = 0; at < expected.size(); ++at) {
      ASSERT_NEAR(logits.as<float>()[at], expected[at], 1e-4) << at;
    }
  }
  // In reverse: the sequence continues from the file's results.
  Sequence back = import_states(sequence.shared_layout(), 29, presents);
  const std::vector<float> a = run(*decoder_, back, tokens(29, 35));
  const std::vector<float> b = run(*decoder_, sequence, tokens(29, 35));
  for (size_t at = 0; at < a.size(); ++at) ASSERT_NEAR(a[at], b[at], 1e-4) << at;
}

TEST_P(SequenceTest, rewinds_as_far_as_its_states_allow) {
  Sequence sequence = after(40);
  sequence.checkpoint();
  run(*decoder_, sequence, tokens(40, 60));
  sequence.checkpoint();
  run(*decoder_, sequence, tokens(60, 70));
  const bool anywhere = decoder_->layout().can_truncate();
  const bool recurrent = decoder_->layout().fixed_states() > 0;
  EXPECT_EQ(sequence.checkpoints().size(), anywhere ? 0U : 2U);
  EXPECT_EQ(sequence.reachable(65), recurrent ? 60 : 65);
  EXPECT_EQ(sequence.reachable(60), 60);
  // gemma2's window of 32 has evicted the first page by then, but not at 40.
  EXPECT_EQ(sequence.reachable(41), anywhere ? 41 : 40);
  EXPECT_EQ(sequence.reachable(39), recurrent ? 0 : 39);
  EXPECT_EQ(sequence.reachable(3), recurrent ? 0 : 3);
  if (recurrent) {
    EXPECT_THROW(sequence.truncate(59), Error);
  }
  EXPECT_THROW(sequence.rewind(71), Error);
  for (const int64_t to : {65, 60, 40, 3}) {
    const auto reached = static_cast<size_t>(sequence.rewind(to));
    EXPECT_EQ(sequence.length(), static_cast<int64_t>(reached));
    Sequence fork = sequence;
    Sequence plain = after(reached);
    EXPECT_TRUE(same_bits(run(*decoder_, fork, tokens(reached, 70)),
                          run(*decoder_, plain, tokens(reached, 70))))
        << "rewound to " << to;
  }
}

TEST_P(SequenceTest, holds_no_more_than_its_tokens_and_a_page) {
  const CacheLayout& layout = decoder_->layout();
  const int64_t before = layout.live_bytes();
  {
    Sequence sequence = decoder_->new_sequence();
    int64_t page_bytes = 0;
    for (const auto& group : layout.groups()) page_bytes += group.page_bytes;
    int64_t fixed = 0;
    for (size_t i = 0; i < layout.fixed_states(); ++i) fixed += state_bytes(layout.fixed(i)) + 64;
    for (size_t i = 0; i < 70; ++i) {
      run(*decoder_, sequence, tokens(i, i + 1));
      EXPECT_LE(sequence.committed_bytes(),
                sequence.length() * layout.bytes_per_token() + page_bytes + 2 * fixed);
      EXPECT_EQ(sequence.committed_bytes(), layout.live_bytes() - before);
    }
    const Sequence fork = sequence;
    EXPECT_EQ(sequence.committed_bytes(), layout.live_bytes() - before);
  }
  EXPECT_EQ(layout.live_bytes(), before);
}

// Two chat turns: greedy, with given tokens for the second.
std::vector<Token> play(Generator& generator) {
  while (generator.generate_next_token()) {
  }
  return generator.outputs(0)[0].tokens;
}

search::SearchOptions greedy(int64_t new_tokens) {
  search::SearchOptions options;
  options.max_new_tokens = new_tokens;
  options.min_length = 1000;  // suppresses end tokens
  return options;
}

TEST_P(SequenceTest, a_second_turn_runs_only_new_tokens) {
  Generator twice(decoder_);
  twice.add(tokens(0, 12), greedy(6));
  std::vector<Token> all = play(twice);
  ASSERT_EQ(all.size(), 18U);
  EXPECT_EQ(twice.tokens_run(), 17);
  twice.append_tokens(0, tokens(12, 20));
  all.insert(all.end(), tokens_.begin() + 12, tokens_.begin() + 20);
  const std::vector<Token> result = play(twice);
  // The first chat turn's last token was sampled, but has not run.
  EXPECT_EQ(twice.tokens_run(), 17 + 9 + 5);
  Generator once(decoder_);
  once.add(all, greedy(6));
  EXPECT_EQ(play(once), result);
}

// The second rendering drops the reasoning of the first answer.
TEST_P(SequenceTest, a_rendering_without_the_reasoning_keeps_the_prompt_before_it) {
  Generator twice(decoder_);
  twice.add(tokens(0, 40), greedy(12));
  const std::vector<Token> first = play(twice);
  const int64_t before = twice.tokens_run();
  std::vector<Token> rendering(tokens_.begin(), tokens_.begin() + 40);
  rendering.insert(rendering.end(), first.end() - 3, first.end());
  rendering.insert(rendering.end(), tokens_.begin() + 40, tokens_.begin() + 50);
  twice.replace_tokens(0, rendering);
  const std::vector<Token> result = play(twice);
  EXPECT_EQ(twice.tokens_run() - before, 3 + 10 + 11);
  Generator once(decoder_);
  once.add(rendering, greedy(12));
  EXPECT_EQ(play(once), result);
}

TEST_P(SequenceTest, a_rewound_prompt_continues_without_a_difference) {
  Generator generator(decoder_);
  generator.add(tokens(0, 40), greedy(12));
  const std::vector<Token> all = play(generator);
  for (const size_t length : {all.size() - 1, size_t{45}, size_t{40}}) {
    generator.rewind_to(0, length);
    EXPECT_EQ(play(generator), all) << "rewound to " << length;
  }
  generator.rewind_to(0, 21);
  Generator other(decoder_);
  other.add(tokens(0, 21), greedy(12));
  EXPECT_EQ(play(generator), play(other));
}

// One sequence per run: every state is one tensor, and a rewind never splits a run.
TEST(UnpagedSequence, is_saved_exported_and_cut_where_a_run_began) {
  const std::string folder = "../shared/models/llm/stories260k-onnx";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "missing " << folder;
  DecoderOptions options;
  options.overlay = R"({"model": {"decoder": {"filename": "model_int8_dynamic.onnx"}}})";
  const Decoder decoder(folder, options);
  ASSERT_TRUE(decoder.layout().unpaged());
  const std::vector<Token> tokens = {1, 403, 407, 261, 378, 432, 400, 401};
  const auto run = [&](Sequence& sequence, size_t begin, size_t end) {
    const StepRequest request{&sequence, std::span(tokens).subspan(begin, end - begin),
                              LogitPositions::all()};
    const Tensor logits = decoder.step({&request, 1});
    return std::vector<float>(logits.as<float>(), logits.as<float>() + logits.count());
  };
  Sequence sequence = decoder.new_sequence();
  run(sequence, 0, 4);
  run(sequence, 4, 6);
  const Bytes saved = save_sequence(sequence);
  const std::vector<StateTensor> tensors = export_states(sequence);
  const std::vector<float> expected = run(sequence, 6, 8);
  Sequence restored = restore_sequence(sequence.shared_layout(), saved, 512);
  EXPECT_EQ(save_sequence(restored), saved);
  EXPECT_EQ(restored.reachable(5), 4);
  EXPECT_EQ(run(restored, 6, 8), expected);
  Sequence imported = import_states(sequence.shared_layout(), 6, tensors);
  EXPECT_EQ(imported.reachable(5), 0);
  EXPECT_EQ(run(imported, 6, 8), expected);
  EXPECT_THROW(import_states(sequence.shared_layout(), 5, tensors), Error);
  EXPECT_EQ(sequence.rewind(7), 6);
  EXPECT_EQ(run(sequence, 6, 8), expected);
  for (size_t at = 0; at < saved.size(); at += at < 400 ? 1 : 97) {
    Bytes bytes(saved.begin(), saved.begin() + static_cast<int64_t>(at));
    EXPECT_THROW(restore_sequence(sequence.shared_layout(), bytes, 512), Error) << at;
    bytes = saved;
    bytes[at] ^= std::byte{0x40};
    const uint64_t sum = checksum(std::span(bytes).first(bytes.size() - 8));
    for (size_t i = 0; i < 8; ++i) bytes[bytes.size() - 8 + i] = std::byte(sum >> (8 * i));
    try {
      restore_sequence(sequence.shared_layout(), bytes, 512);  // bytes of values are not checked
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << at;
    }
  }
}

// KV caches are paged, encoder results are tensors.
TEST(CrossSequence, is_saved_exported_and_cut_with_encoder_results) {
  const std::string folder = zoo_folder("whisper");
  if (folder.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/whisper";
  const Decoder decoder(folder + "/fp32");
  ASSERT_TRUE(decoder.packed());
  Tensor features(ElementType::f32, {1, 80, 3000});
  for (int64_t i = 0; i < features.count(); ++i) {
    features.as<float>()[i] = static_cast<float>(i * 7919 % 1009) / 504.5F - 1;
  }
  const std::vector<Token> tokens = {3, 40, 7, 261, 378, 432, 400, 401};
  const auto run = [&](Sequence& sequence, size_t begin, size_t end) {
    const StepRequest request{&sequence, std::span(tokens).subspan(begin, end - begin),
                              LogitPositions::all()};
    const Tensor logits = decoder.step({&request, 1});
    return std::vector<float>(logits.as<float>(), logits.as<float>() + logits.count());
  };
  Sequence sequence = decoder.new_sequence();
  EXPECT_THROW(run(sequence, 0, 4), Error);
  decoder.encode(sequence, {{"audio_features", features}});
  run(sequence, 0, 6);
  const Bytes saved = save_sequence(sequence);
  const std::vector<StateTensor> tensors = export_states(sequence);
  Sequence fork = sequence;
  const std::vector<float> expected = run(sequence, 6, 8);
  Sequence restored = restore_sequence(sequence.shared_layout(), saved, 64);
  EXPECT_EQ(save_sequence(restored), saved);
  EXPECT_EQ(run(restored, 6, 8), expected);
  Sequence imported = import_states(sequence.shared_layout(), 6, tensors);
  EXPECT_EQ(run(imported, 6, 8), expected);
  EXPECT_EQ(run(fork, 6, 8), expected);
  EXPECT_EQ(sequence.rewind(5), 5);
  run(sequence, 5, 6);
  EXPECT_EQ(run(sequence, 6, 8), expected);
  EXPECT_EQ(sequence.rewind(0), 0);
  run(sequence, 0, 6);
  EXPECT_EQ(run(sequence, 6, 8), expected);
}

INSTANTIATE_TEST_SUITE_P(types, SequenceTest, testing::Values("llama", "lfm2", "gemma2", "qwen3_5"),
                         [](const auto& type) { return std::string(type.param); });

}  // namespace
}  // namespace lathe::llm
