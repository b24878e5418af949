// SPDX-License-Identifier: MIT
// Tests explicit position ids and the implicit ids that follow them.
#include <cmath>

#include "llm/model/checksum.h"
#include "llm/model/sequence_file.h"
#include "tests/decoders/items_fixture.h"

namespace lathe::llm {
namespace {

class PositionIdsTest : public ItemsTest {};

class PositionsTest : public ItemsTest,
                      public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(PositionsTest, explicit_ids_equal_the_default) {
  const auto decoder = open(GetParam());
  SKIP_WITHOUT(decoder);
  EXPECT_EQ(decoder->packed(), GetParam().size() == 1) << decoder->notes().not_packed_reason;
  Sequence explicit_ids = decoder->new_sequence();
  Sequence implicit_ids = decoder->new_sequence();
  const Numbers positions = count_from(0, 30);
  EXPECT_EQ(run(*decoder, {.sequence = &explicit_ids, .tokens = prompt_, .positions = positions}),
            run(*decoder, {.sequence = &implicit_ids, .tokens = prompt_}));
  EXPECT_EQ(explicit_ids.next_position(), 30);
}

// RoPE is relative: a common offset changes only rounding; a gap changes the logits.
TEST_P(PositionsTest, matter_only_by_distance) {
  const auto decoder = open(GetParam(), "ref");
  SKIP_WITHOUT(decoder);
  Sequence near = decoder->new_sequence();
  Sequence far = decoder->new_sequence();
  Sequence apart = decoder->new_sequence();
  Numbers shifted = count_from(100, 30);
  const Values expected = run(*decoder, {.sequence = &near, .tokens = prompt_});
  const Values same = run(*decoder, {.sequence = &far, .tokens = prompt_, .positions = shifted});
  shifted[29] += 7;
  const Values other = run(*decoder, {.sequence = &apart, .tokens = prompt_, .positions = shifted});
  float largest = 0;
  float last_row = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::abs(same[i] - expected[i]));
    if (i >= 29 * 32) last_row = std::max(last_row, std::abs(other[i] - expected[i]));
  }
  EXPECT_LT(largest, 1e-3F);
  EXPECT_GT(last_row, 0.05F);
  EXPECT_EQ(far.next_position(), 130);
  EXPECT_EQ(apart.next_position(), 137);
}

TEST_P(PositionsTest, keep_the_same_bits_alone_in_a_batch_and_in_parts) {
  const auto decoder = open(GetParam());
  SKIP_WITHOUT(decoder);
  Numbers positions = {0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 6, 7, 20, 21, 22, 23, 24, 25, 26, 27};
  Sequence alone = decoder->new_sequence();
  const Values expected =
      run(*decoder, {.sequence = &alone, .tokens = prompt_tokens(0, 20), .positions = positions});
  Sequence one = decoder->new_sequence();
  Sequence two = decoder->new_sequence();
  const StepRequest both[] = {
      {.sequence = &two, .tokens = prompt_tokens(3, 9), .logits = LogitPositions::all()},
      {.sequence = &one,
       .tokens = prompt_tokens(0, 20),
       .logits = LogitPositions::all(),
       .positions = positions}};
  const Tensor batch = decoder->step(both);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), batch.as<float>() + 9 * 32));
  // Implicit ids continue after the largest one.
  EXPECT_EQ(one.next_position(), 28);
  const Numbers next = {28, 29};
  EXPECT_EQ(run(*decoder, {.sequence = &alone, .tokens = prompt_tokens(20, 2)}),
            run(*decoder, {.sequence = &one, .tokens = prompt_tokens(20, 2), .positions = next}));
  if (!decoder->packed()) return;
  Sequence parts = decoder->new_sequence();
  Values all;
  for (size_t at = 0; at < 20; at += 6) {
    const size_t count = std::min<size_t>(6, 20 - at);
    const Values own = run(*decoder, {.sequence = &parts,
                                      .tokens = prompt_tokens(at, count),
                                      .positions = std::span(positions).subspan(at, count)});
    all.insert(all.end(), own.begin(), own.end());
  }
  EXPECT_EQ(all, expected);
}

TEST_P(PositionsTest, are_forked_rewound_saved_and_restored) {
  const auto decoder = open(GetParam());
  SKIP_WITHOUT(decoder);
  const Numbers first = count_from(0, 6);
  const Numbers image = {6, 6, 6, 7, 7, 7};
  Sequence sequence = decoder->new_sequence();
  run(*decoder, {.sequence = &sequence, .tokens = prompt_tokens(0, 6), .positions = first});
  run(*decoder, {.sequence = &sequence, .tokens = prompt_tokens(6, 6), .positions = image});
  EXPECT_EQ(sequence.next_position(), 8);
  Sequence fork = sequence;
  const Values expected = run(*decoder, {.sequence = &sequence, .tokens = prompt_tokens(12, 8)});
  EXPECT_EQ(sequence.next_position(), 16);
  EXPECT_EQ(run(*decoder, {.sequence = &fork, .tokens = prompt_tokens(12, 8)}), expected);

  const std::vector<std::byte> saved = save_sequence(sequence);
  Sequence restored = restore_sequence(sequence.shared_layout(), saved, 16384);
  EXPECT_EQ(restored.next_position(), 16);
  for (Sequence* each : {&sequence, &restored}) {
    each->rewind(12);
    EXPECT_EQ(each->next_position(), 8);
    EXPECT_EQ(run(*decoder, {.sequence = each, .tokens = prompt_tokens(12, 8)}), expected);
  }
  // After a rewind into explicit ids, the next id follows the largest remaining id.
  if (decoder->packed()) {
    sequence.rewind(8);
    EXPECT_EQ(sequence.next_position(), 7);
    const Numbers rest = {6, 7, 7, 7};
    run(*decoder, {.sequence = &sequence, .tokens = prompt_tokens(8, 4), .positions = rest});
    EXPECT_EQ(run(*decoder, {.sequence = &sequence, .tokens = prompt_tokens(12, 8)}), expected);
  }
  sequence.rewind(0);
  EXPECT_EQ(sequence.next_position(), 0);
}

INSTANTIATE_TEST_SUITE_P(programs, PositionsTest,
                         testing::Values(std::vector<std::string>{"positions"},
                                         std::vector<std::string>{"mrope"},
                                         std::vector<std::string>{"positions", "items"},
                                         std::vector<std::string>{"mrope", "items"}),
                         [](const auto& info) {
                           std::string name;
                           for (const std::string& flag : info.param) name += flag;
                           return name;
                         });

// Beyond 24 tokens, all tokens run again with other LongRoPE cos/sin caches. Positions and
// embeddings stay the same.
TEST_F(PositionIdsTest, positions_are_kept_for_tokens_that_run_again) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"items"}}) {
    std::vector<std::string> flags = {"positions", "switch", "embeddings"};
    flags.insert(flags.end(), more.begin(), more.end());
    const auto decoder = open(flags);
    SKIP_WITHOUT(decoder);
    EXPECT_EQ(decoder->packed(), more.empty()) << decoder->notes().not_packed_reason;
    Numbers positions = count_from(0, 30);
    for (size_t i = 10; i < 30; ++i) positions[i] += i < 20 ? 3 : 40;
    Sequence whole = decoder->new_sequence();
    const Values expected =
        run(*decoder, {.sequence = &whole, .tokens = prompt_, .positions = positions});
    Sequence parts = decoder->new_sequence();
    const std::span<const int64_t> explicit_ids = positions;
    const EmbeddedTokens image{1, embed(*decoder, prompt_tokens(9, 4))};
    run(*decoder,
        {.sequence = &parts, .tokens = prompt_tokens(0, 8), .positions = explicit_ids.first(8)});
    run(*decoder, {.sequence = &parts,
                   .tokens = prompt_tokens(8, 12),
                   .embedded = {&image, 1},
                   .positions = explicit_ids.subspan(8, 12)});
    const std::vector<std::byte> saved = save_sequence(parts);
    Sequence restored = restore_sequence(parts.shared_layout(), saved, 16384);
    EXPECT_EQ(save_sequence(restored), saved);
    for (Sequence* each : {&parts, &restored}) {
      EXPECT_EQ(each->next_position(), 23);
      EXPECT_EQ(run(*decoder, {.sequence = each,
                               .tokens = prompt_tokens(20, 10),
                               .positions = explicit_ids.subspan(20)}),
                last(expected, 10));
      EXPECT_EQ(each->next_position(), 70);
    }
    // Damaged bytes throw InvalidArgument or restore a valid sequence.
    for (size_t at = 0; at < saved.size(); at += at < 2000 ? 1 : 97) {
      std::vector<std::byte> bytes = saved;
      bytes[at] ^= std::byte{0x41};
      const uint64_t sum = checksum(std::span(bytes).first(bytes.size() - 8));
      for (size_t i = 0; i < 8; ++i) bytes[bytes.size() - 8 + i] = std::byte(sum >> (8 * i));
      try {
        restore_sequence(parts.shared_layout(), bytes, 16384);
      } catch (const Error& error) {
        ASSERT_EQ(error.kind(), ErrorKind::invalid_argument) << at << ": " << error.message();
      }
    }
  }
}

// Positions rewind to a checkpoint together with states that cannot truncate.
TEST_F(PositionIdsTest, positions_rewind_to_checkpoints) {
  const std::string folder = zoo_folder("qwen3_5");
  if (folder.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/qwen3_5";
  const Decoder decoder(folder + "/fp32");
  ASSERT_TRUE(decoder.packed());
  ASSERT_EQ(decoder.limits().position_axes, 3);
  const Numbers image = {5, 5, 5, 5, 5, 5,  //
                         5, 5, 5, 6, 6, 6,  //
                         5, 6, 7, 5, 6, 7};
  const auto values = [&](StepRequest request) {
    const Tensor logits = decoder.step({&request, 1});
    return Values(logits.as<float>(), logits.as<float>() + logits.count());
  };
  Sequence sequence = decoder.new_sequence();
  values({.sequence = &sequence, .tokens = prompt_tokens(0, 5)});
  values({.sequence = &sequence, .tokens = prompt_tokens(5, 6), .positions = image});
  EXPECT_EQ(sequence.next_position(), 8);
  sequence.checkpoint();
  const Values expected = values({.sequence = &sequence, .tokens = prompt_tokens(11, 7)});
  EXPECT_EQ(sequence.next_position(), 15);
  const std::vector<std::byte> saved = save_sequence(sequence);
  Sequence restored = restore_sequence(sequence.shared_layout(), saved, 128);
  EXPECT_EQ(save_sequence(restored), saved);
  for (Sequence* each : {&sequence, &restored}) {
    EXPECT_EQ(each->rewind(14), 11);
    EXPECT_EQ(each->next_position(), 8);
    EXPECT_EQ(values({.sequence = each, .tokens = prompt_tokens(11, 7)}), expected);
  }
  // One step in a batch computes the same logits.
  Numbers explicit_ids;
  for (size_t axis = 0; axis < 3; ++axis) {
    for (int64_t i = 0; i < 5; ++i) explicit_ids.push_back(i);
    const auto own = image.begin() + static_cast<int64_t>(axis) * 6;
    explicit_ids.insert(explicit_ids.end(), own, own + 6);
    for (int64_t i = 8; i < 15; ++i) explicit_ids.push_back(i);
  }
  Sequence whole = decoder.new_sequence();
  Sequence other = decoder.new_sequence();
  const StepRequest both[] = {
      {.sequence = &other, .tokens = prompt_tokens(2, 4)},
      {.sequence = &whole, .tokens = prompt_tokens(0, 18), .positions = explicit_ids}};
  const Tensor batch = decoder.step(both);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), batch.as<float>() + expected.size()));
}

TEST_F(PositionIdsTest, positions_of_three_axes_rotate_their_sections) {
  const auto decoder = open({"mrope"});
  const auto single = open({"mrope", "items"});
  SKIP_WITHOUT(decoder);
  // Time, height and width of 3 text tokens, 4 image tokens and 3 text tokens.
  const Numbers positions = {0, 1, 2, 3, 3, 3, 3, 5, 6, 7,  //
                             0, 1, 2, 3, 3, 4, 4, 5, 6, 7,  //
                             0, 1, 2, 3, 4, 3, 4, 5, 6, 7};
  Sequence packed = decoder->new_sequence();
  Sequence alone = single->new_sequence();
  Sequence flat = decoder->new_sequence();
  const Values logits =
      run(*decoder, {.sequence = &packed, .tokens = prompt_tokens(0, 10), .positions = positions});
  EXPECT_EQ(packed.next_position(), 8);
  EXPECT_NE(logits, run(*decoder, {.sequence = &flat,
                                   .tokens = prompt_tokens(0, 10),
                                   .positions = std::span(positions).first(10)}));
  const Values other =
      run(*single, {.sequence = &alone, .tokens = prompt_tokens(0, 10), .positions = positions});
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], other[i], 1e-3) << i;
  // The second part starts inside the image.
  Sequence parts = decoder->new_sequence();
  Numbers head, tail;
  for (size_t axis = 0; axis < 3; ++axis) {
    head.insert(head.end(), positions.begin() + static_cast<int64_t>(axis) * 10,
                positions.begin() + static_cast<int64_t>(axis) * 10 + 5);
    tail.insert(tail.end(), positions.begin() + static_cast<int64_t>(axis) * 10 + 5,
                positions.begin() + static_cast<int64_t>(axis) * 10 + 10);
  }
  run(*decoder, {.sequence = &parts, .tokens = prompt_tokens(0, 5), .positions = head});
  EXPECT_EQ(run(*decoder, {.sequence = &parts, .tokens = prompt_tokens(5, 5), .positions = tail}),
            last(logits, 5));
  parts.rewind(6);
  EXPECT_EQ(parts.next_position(), 5);
}

TEST_F(PositionIdsTest, invalid_positions_are_refused) {
  const auto plain = open({});
  const auto positioned = open({"positions"});
  const auto counted = open({"counted"});
  SKIP_WITHOUT(plain);
  Sequence sequence = plain->new_sequence();
  const Numbers three = {0, 1, 2};
  EXPECT_NE(
      error_of(*plain, {.sequence = &sequence, .tokens = prompt_tokens(0, 3), .positions = three})
          .find("the model accepts none: its tokens are consecutive"),
      std::string::npos);
  Sequence other = positioned->new_sequence();
  EXPECT_EQ(error_of(*positioned,
                     {.sequence = &other, .tokens = prompt_tokens(0, 4), .positions = three}),
            "4 tokens have 3 position ids, expected one each");
  const Numbers nine(9, 1);
  EXPECT_EQ(
      error_of(*positioned, {.sequence = &other, .tokens = prompt_tokens(0, 3), .positions = nine}),
      "3 tokens have 9 position ids, expected one each");
  const Numbers far = {0, 1, 16384};
  EXPECT_EQ(
      error_of(*positioned, {.sequence = &other, .tokens = prompt_tokens(0, 3), .positions = far}),
      "position id 16384 lies outside the context of 16384");
  const Numbers end = {0, 1, 16383};
  run(*positioned, {.sequence = &other, .tokens = prompt_tokens(0, 3), .positions = end});
  EXPECT_EQ(error_of(*positioned, {.sequence = &other, .tokens = prompt_tokens(0, 1)}),
            "1 tokens from position 16384 on exceed the context of 16384");
  ASSERT_TRUE(counted->packed()) << counted->notes().not_packed_reason;
  Sequence masked = counted->new_sequence();
  EXPECT_NE(
      error_of(*counted, {.sequence = &masked, .tokens = prompt_tokens(0, 3), .positions = three})
          .find("positions must count the tokens"),
      std::string::npos);
}

// The LongRoPE caches of long sequences follow in memory; short sequences must not read them.
TEST_F(PositionIdsTest, positions_beyond_the_caches_of_short_sequences_are_refused) {
  const auto decoder = open({"positions", "switch"});
  const auto single = open({"positions", "switch", "items"});
  SKIP_WITHOUT(decoder);
  const Numbers behind = {0, 1, 24};
  Sequence packed = decoder->new_sequence();
  Sequence alone = single->new_sequence();
  EXPECT_EQ(
      error_of(*decoder, {.sequence = &packed, .tokens = prompt_tokens(0, 3), .positions = behind}),
      "position id 24 of a sequence of 3 tokens exceeds the LongRoPE caches of short "
      "sequences, which "
      "have 24 positions");
  EXPECT_NE(
      error_of(*single, {.sequence = &alone, .tokens = prompt_tokens(0, 3), .positions = behind}),
      "");
}

// A prompt ends at the last position of the context and does not block other prompts.
TEST_F(PositionIdsTest, sequences_end_where_positions_reach_the_context) {
  const auto decoder = open({"positions"});
  SKIP_WITHOUT(decoder);
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  search::SearchOptions options;
  options.max_new_tokens = 8;
  Generator generator(decoder);
  generator.add(prompt_tokens(0, 3), options);
  const Numbers far = {0, 1, 16380};
  const PromptPart part{.tokens = prompt_tokens(0, 3), .positions = far};
  EXPECT_EQ(generator.add_parts({&part, 1}, options), 1U);
  while (generator.generate_next_token()) {
  }
  EXPECT_EQ(generator.outputs(0).front().generated().size(), 8U);
  EXPECT_EQ(generator.outputs(1).front().generated().size(), 3U) << "positions 16381 to 16383";
  EXPECT_EQ(generator.outputs(1).front().reason, FinishReason::length);
  EXPECT_EQ(message([&] { generator.append_tokens(1, prompt_tokens(0, 1)); }),
            "7 tokens, the last with position id 16384, leave no room in a context of 16384");
  const Numbers outside = {0, 1, INT64_MAX};
  const PromptPart lost{.tokens = prompt_tokens(0, 3), .positions = outside};
  EXPECT_EQ(message([&] { generator.add_parts({&lost, 1}, options); }),
            "position id 9223372036854775807 lies outside the context of 16384");
  EXPECT_EQ(generator.prompts(), 2U) << "a refused prompt is not added";
}

}  // namespace
}  // namespace lathe::llm
