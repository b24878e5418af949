// SPDX-License-Identifier: MIT
// What an item of a step may carry beside tokens: positions, embeddings, the rows whose logits it
// wants, a sampling block with a token mask.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "llm/model/generator.h"
#include "llm/model/sequence_file.h"
#include "tests/decoders/made_decoder.h"

namespace lathe::llm {
namespace {

using Values = std::vector<float>;
using Numbers = std::vector<int64_t>;

class ItemsTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 30; ++i) prompt_.push_back((i * 7 + i / 3) % 29);
  }
  static std::shared_ptr<const Decoder> open(const std::vector<std::string>& flags,
                                             const char* target = "cpu") {
    return make_decoder(0, find_target(target) == nullptr ? "ref" : target, flags);
  }
  static Values run(const Decoder& decoder, StepRequest request) {
    request.logits = LogitRows::all();
    const Tensor logits = decoder.step({&request, 1});
    return {logits.as<float>(), logits.as<float>() + logits.count()};
  }
  // Rows of `embedding.f32` for these tokens.
  static Embeddings embed(const Decoder& decoder, std::span<const Token> tokens) {
    std::ifstream file(decoder.folder() + "/embedding.f32", std::ios::binary);
    Tensor rows(ElementType::f32, {std::ssize(tokens), 64});
    for (size_t i = 0; i < tokens.size(); ++i) {
      file.seekg(tokens[i] * 256);
      file.read(rows.as<char>() + i * 256, 256);
    }
    EXPECT_TRUE(file.good());
    return make_embeddings(rows);
  }
  static std::string error_of(const Decoder& decoder, const StepRequest& request) {
    const int64_t before = request.sequence->length();
    try {
      decoder.step({&request, 1});
    } catch (const Error& error) {
      EXPECT_EQ(request.sequence->length(), before);
      return error.message();
    }
    return "";
  }
  std::span<const Token> rows(size_t begin, size_t count) const {
    return std::span(prompt_).subspan(begin, count);
  }

  std::vector<Token> prompt_;
};

#define SKIP_WITHOUT(decoder) \
  if ((decoder) == nullptr) GTEST_SKIP() << "make_decoder.py needs build/venv"

Values last(const Values& values, size_t rows) {
  return {values.end() - static_cast<int64_t>(rows) * 32, values.end()};
}

Numbers count_from(int64_t first, size_t count) {
  Numbers numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = first + static_cast<int64_t>(i);
  return numbers;
}

class PositionsTest : public ItemsTest,
                      public testing::WithParamInterface<std::vector<std::string>> {};

TEST_P(PositionsTest, that_are_given_are_those_by_default) {
  const auto decoder = open(GetParam());
  SKIP_WITHOUT(decoder);
  EXPECT_EQ(decoder->packed(), GetParam().size() == 1) << decoder->notes().offender;
  Sequence told = decoder->new_sequence();
  Sequence untold = decoder->new_sequence();
  const Numbers positions = count_from(0, 30);
  EXPECT_EQ(run(*decoder, {.sequence = &told, .tokens = prompt_, .positions = positions}),
            run(*decoder, {.sequence = &untold, .tokens = prompt_}));
  EXPECT_EQ(told.next_position(), 30);
}

// Rotary positions are relative: all of them elsewhere change roundings only. Gaps change more.
TEST_P(PositionsTest, count_by_their_distance) {
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

TEST_P(PositionsTest, give_the_same_bits_alone_in_a_batch_and_in_parts) {
  const auto decoder = open(GetParam());
  SKIP_WITHOUT(decoder);
  Numbers positions = {0, 1, 2, 3, 3, 3, 4, 4, 4, 5, 6, 7, 20, 21, 22, 23, 24, 25, 26, 27};
  Sequence alone = decoder->new_sequence();
  const Values expected =
      run(*decoder, {.sequence = &alone, .tokens = rows(0, 20), .positions = positions});
  Sequence one = decoder->new_sequence();
  Sequence two = decoder->new_sequence();
  const StepRequest both[] = {{.sequence = &two, .tokens = rows(3, 9), .logits = LogitRows::all()},
                              {.sequence = &one,
                               .tokens = rows(0, 20),
                               .logits = LogitRows::all(),
                               .positions = positions}};
  const Tensor batch = decoder->step(both);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), batch.as<float>() + 9 * 32));
  // What follows goes on behind the largest position.
  EXPECT_EQ(one.next_position(), 28);
  const Numbers next = {28, 29};
  EXPECT_EQ(run(*decoder, {.sequence = &alone, .tokens = rows(20, 2)}),
            run(*decoder, {.sequence = &one, .tokens = rows(20, 2), .positions = next}));
  if (!decoder->packed()) return;
  Sequence parts = decoder->new_sequence();
  Values all;
  for (size_t at = 0; at < 20; at += 6) {
    const size_t count = std::min<size_t>(6, 20 - at);
    const Values own = run(*decoder, {.sequence = &parts,
                                      .tokens = rows(at, count),
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
  run(*decoder, {.sequence = &sequence, .tokens = rows(0, 6), .positions = first});
  run(*decoder, {.sequence = &sequence, .tokens = rows(6, 6), .positions = image});
  EXPECT_EQ(sequence.next_position(), 8);
  Sequence fork = sequence;
  const Values expected = run(*decoder, {.sequence = &sequence, .tokens = rows(12, 8)});
  EXPECT_EQ(sequence.next_position(), 16);
  EXPECT_EQ(run(*decoder, {.sequence = &fork, .tokens = rows(12, 8)}), expected);

  const std::vector<std::byte> saved = save_sequence(sequence);
  Sequence restored = restore_sequence(sequence.shared_layout(), saved, 16384);
  EXPECT_EQ(restored.next_position(), 16);
  for (Sequence* each : {&sequence, &restored}) {
    each->rewind(12);
    EXPECT_EQ(each->next_position(), 8);
    EXPECT_EQ(run(*decoder, {.sequence = each, .tokens = rows(12, 8)}), expected);
  }
  // Into the rows that were told theirs: the largest of those that stay counts.
  if (decoder->packed()) {
    sequence.rewind(8);
    EXPECT_EQ(sequence.next_position(), 7);
    const Numbers rest = {6, 7, 7, 7};
    run(*decoder, {.sequence = &sequence, .tokens = rows(8, 4), .positions = rest});
    EXPECT_EQ(run(*decoder, {.sequence = &sequence, .tokens = rows(12, 8)}), expected);
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

TEST_F(ItemsTest, positions_of_three_axes_turn_what_their_sections_say) {
  const auto decoder = open({"mrope"});
  const auto single = open({"mrope", "items"});
  SKIP_WITHOUT(decoder);
  // Time, height and width of 3 text rows, 4 of an image, and 3 of text.
  const Numbers positions = {0, 1, 2, 3, 3, 3, 3, 5, 6, 7,  //
                             0, 1, 2, 3, 3, 4, 4, 5, 6, 7,  //
                             0, 1, 2, 3, 4, 3, 4, 5, 6, 7};
  Sequence packed = decoder->new_sequence();
  Sequence alone = single->new_sequence();
  Sequence flat = decoder->new_sequence();
  const Values logits =
      run(*decoder, {.sequence = &packed, .tokens = rows(0, 10), .positions = positions});
  EXPECT_EQ(packed.next_position(), 8);
  EXPECT_NE(logits, run(*decoder, {.sequence = &flat,
                                   .tokens = rows(0, 10),
                                   .positions = std::span(positions).first(10)}));
  const Values other =
      run(*single, {.sequence = &alone, .tokens = rows(0, 10), .positions = positions});
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], other[i], 1e-3) << i;
  // In parts, the second one beginning inside the image.
  Sequence parts = decoder->new_sequence();
  Numbers head, tail;
  for (size_t axis = 0; axis < 3; ++axis) {
    head.insert(head.end(), positions.begin() + static_cast<int64_t>(axis) * 10,
                positions.begin() + static_cast<int64_t>(axis) * 10 + 5);
    tail.insert(tail.end(), positions.begin() + static_cast<int64_t>(axis) * 10 + 5,
                positions.begin() + static_cast<int64_t>(axis) * 10 + 10);
  }
  run(*decoder, {.sequence = &parts, .tokens = rows(0, 5), .positions = head});
  EXPECT_EQ(run(*decoder, {.sequence = &parts, .tokens = rows(5, 5), .positions = tail}),
            last(logits, 5));
  parts.rewind(6);
  EXPECT_EQ(parts.next_position(), 5);
}

TEST_F(ItemsTest, positions_that_cannot_be_are_refused) {
  const auto plain = open({});
  const auto told = open({"positions"});
  const auto counted = open({"counted"});
  SKIP_WITHOUT(plain);
  Sequence sequence = plain->new_sequence();
  const Numbers three = {0, 1, 2};
  EXPECT_NE(error_of(*plain, {.sequence = &sequence, .tokens = rows(0, 3), .positions = three})
                .find("the model takes none: its rows stand one behind the other"),
            std::string::npos);
  Sequence other = told->new_sequence();
  EXPECT_EQ(error_of(*told, {.sequence = &other, .tokens = rows(0, 4), .positions = three}),
            "4 rows come with 3 positions, expected one each");
  const Numbers nine(9, 1);
  EXPECT_EQ(error_of(*told, {.sequence = &other, .tokens = rows(0, 3), .positions = nine}),
            "3 rows come with 9 positions, expected one each");
  const Numbers far = {0, 1, 16384};
  EXPECT_EQ(error_of(*told, {.sequence = &other, .tokens = rows(0, 3), .positions = far}),
            "position 16384 lies outside the context of 16384");
  const Numbers end = {0, 1, 16383};
  run(*told, {.sequence = &other, .tokens = rows(0, 3), .positions = end});
  EXPECT_EQ(error_of(*told, {.sequence = &other, .tokens = rows(0, 1)}),
            "1 rows from position 16384 on are more than the context of 16384 holds");
  if (!counted->packed()) return;
  Sequence masked = counted->new_sequence();
  EXPECT_NE(error_of(*counted, {.sequence = &masked, .tokens = rows(0, 3), .positions = three})
                .find("it takes them for a count of its rows"),
            std::string::npos);
}

TEST_F(ItemsTest, logits_are_those_of_the_rows_that_are_wanted) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, std::vector<std::string>{"items"}}) {
    const auto decoder = open(flags);
    SKIP_WITHOUT(decoder);
    const Sequence empty = decoder->new_sequence();
    Sequence all = empty;
    const Values logits = run(*decoder, {.sequence = &all, .tokens = prompt_});
    const auto wanted = [&](LogitRows rows) {
      Sequence sequence = empty;
      const StepRequest request{.sequence = &sequence, .tokens = prompt_, .logits = rows};
      const Tensor given = decoder->step({&request, 1});
      EXPECT_EQ(sequence.length(), 30);
      return Values(given.as<float>(), given.as<float>() + given.count());
    };
    EXPECT_EQ(wanted({}), last(logits, 1));
    EXPECT_EQ(wanted(LogitRows::range(24, 6)), last(logits, 6));
    EXPECT_TRUE(wanted(LogitRows::range(3, 0)).empty());
    const Numbers list = {29, 2, 2};
    Values expected = last(logits, 1);
    for (int i = 0; i < 2; ++i) {
      expected.insert(expected.end(), logits.begin() + 64, logits.begin() + 96);
    }
    EXPECT_EQ(wanted(LogitRows::list(list)), expected);
    Sequence sequence = empty;
    EXPECT_EQ(
        error_of(*decoder,
                 {.sequence = &sequence, .tokens = prompt_, .logits = LogitRows::range(29, 2)}),
        "the logits of row 30 are wanted, of 30");
    // Of a batch, in which some want none.
    Sequence quiet = empty;
    Sequence loud = empty;
    const StepRequest both[] = {
        {.sequence = &quiet, .tokens = rows(0, 4), .logits = LogitRows::range(0, 0)},
        {.sequence = &loud, .tokens = prompt_, .logits = LogitRows::range(28, 2)}};
    const Tensor given = decoder->step(both);
    EXPECT_EQ(Values(given.as<float>(), given.as<float>() + given.count()), last(logits, 2));
  }
}

class EmbeddingsTest : public ItemsTest,
                       public testing::WithParamInterface<std::vector<std::string>> {};

// The same weights make a decoder of tokens and one of embeddings.
TEST_P(EmbeddingsTest, of_tokens_or_given_are_what_a_decoder_of_tokens_computes) {
  std::vector<std::string> flags = GetParam();
  const auto decoder = open(flags);
  flags.erase(flags.begin());
  const auto plain = open(flags);
  SKIP_WITHOUT(decoder);
  EXPECT_TRUE(decoder->notes().embeds);
  EXPECT_EQ(decoder->notes().embedding_offender.empty(), GetParam()[0] == "embeddings");
  Sequence sequence = plain->new_sequence();
  const Values expected = run(*plain, {.sequence = &sequence, .tokens = prompt_});
  Sequence text = decoder->new_sequence();
  EXPECT_EQ(run(*decoder, {.sequence = &text, .tokens = prompt_}), expected);

  const EmbeddedRows image{4, embed(*decoder, rows(4, 11))};
  std::vector<Token> tokens = prompt_;
  for (int64_t i = 0; i < 11; ++i) tokens[static_cast<size_t>(4 + i)] = image.embeddings.token(i);
  Sequence mixed = decoder->new_sequence();
  EXPECT_EQ(run(*decoder, {.sequence = &mixed, .tokens = tokens, .embedded = {&image, 1}}),
            expected);
  // What stands for a row does not matter, be it the image's own token.
  std::ranges::fill(std::span(tokens).subspan(4, 11), 30);
  Sequence placed = decoder->new_sequence();
  EXPECT_EQ(run(*decoder, {.sequence = &placed, .tokens = tokens, .embedded = {&image, 1}}),
            expected);
  const EmbeddedRows all{0, embed(*decoder, prompt_)};
  Sequence given = decoder->new_sequence();
  Sequence beside = decoder->new_sequence();
  const std::vector<Token> any(30, -1);
  const StepRequest both[] = {
      {.sequence = &beside, .tokens = rows(0, 7), .logits = LogitRows::all()},
      {.sequence = &given, .tokens = any, .logits = LogitRows::all(), .embedded = {&all, 1}}};
  const Tensor batch = decoder->step(both);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), batch.as<float>() + 7 * 32));
}

INSTANTIATE_TEST_SUITE_P(programs, EmbeddingsTest,
                         testing::Values(std::vector<std::string>{"embeddings"},
                                         std::vector<std::string>{"features"},
                                         std::vector<std::string>{"embeddings", "items"},
                                         std::vector<std::string>{"features", "mrope"},
                                         std::vector<std::string>{"embeddings", "switch"}),
                         [](const auto& info) {
                           std::string name;
                           for (const std::string& flag : info.param) name += flag;
                           return name;
                         });

// Past 24 rows all are run again, with other tables.
TEST_F(ItemsTest, rows_of_embeddings_can_be_run_again) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"items"}}) {
    std::vector<std::string> flags = {"embeddings", "switch"};
    flags.insert(flags.end(), more.begin(), more.end());
    const auto decoder = open(flags);
    SKIP_WITHOUT(decoder);
    Sequence whole = decoder->new_sequence();
    const Values expected = run(*decoder, {.sequence = &whole, .tokens = prompt_});
    const EmbeddedRows image{2, embed(*decoder, rows(8, 5))};
    std::vector<Token> tokens(prompt_.begin() + 6, prompt_.begin() + 20);
    std::fill_n(tokens.begin() + 2, 5, -1);
    Sequence sequence = decoder->new_sequence();
    run(*decoder, {.sequence = &sequence, .tokens = rows(0, 6)});
    run(*decoder, {.sequence = &sequence, .tokens = tokens, .embedded = {&image, 1}});
    Sequence restored = restore_sequence(sequence.shared_layout(), save_sequence(sequence), 16384);
    Sequence fork = sequence;
    for (Sequence* each : {&sequence, &restored, &fork}) {
      const Values rest = run(*decoder, {.sequence = each, .tokens = rows(20, 10)});
      EXPECT_EQ(rest, last(expected, 10));
      EXPECT_EQ(each->length(), 30);
    }
  }
}

TEST_F(ItemsTest, programs_may_want_more_of_tokens_than_embeddings) {
  for (const std::string flag : {"layers", "both"}) {
    const auto packed = open({flag});
    const auto single = open({flag, "items"});
    SKIP_WITHOUT(packed);
    EXPECT_TRUE(packed->packed()) << packed->notes().offender;
    EXPECT_FALSE(single->packed());
    Sequence one = packed->new_sequence();
    Sequence two = single->new_sequence();
    const Values a = run(*packed, {.sequence = &one, .tokens = prompt_});
    const Values b = run(*single, {.sequence = &two, .tokens = prompt_});
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3) << flag << " " << i;
    // Given rows, and the tokens all the same.
    const EmbeddedRows image{3, embed(*packed, rows(3, 20))};
    Sequence given = packed->new_sequence();
    const Values c = run(*packed, {.sequence = &given, .tokens = prompt_, .embedded = {&image, 1}});
    if (flag == "both") {
      EXPECT_EQ(c, a);
    } else {
      // Their other inputs are those of token 0.
      EXPECT_NE(c, a);
    }
  }
}

TEST_F(ItemsTest, embeddings_that_cannot_be_are_refused) {
  const auto plain = open({});
  const auto decoder = open({"embeddings"});
  SKIP_WITHOUT(plain);
  const EmbeddedRows good{1, embed(*decoder, rows(0, 2))};
  Sequence sequence = plain->new_sequence();
  EXPECT_EQ(error_of(*plain, {.sequence = &sequence, .tokens = rows(0, 3), .embedded = {&good, 1}}),
            "embeddings are f32[2, 64], and the model takes tokens only");
  Sequence other = decoder->new_sequence();
  EXPECT_EQ(error_of(*decoder, {.sequence = &other, .tokens = rows(0, 2), .embedded = {&good, 1}}),
            "embeddings are for rows 1 to 3 of 2, those before end at 0");
  const EmbeddedRows narrow{0, make_embeddings(Tensor(ElementType::f32, {2, 63}))};
  EXPECT_EQ(
      error_of(*decoder, {.sequence = &other, .tokens = rows(0, 2), .embedded = {&narrow, 1}}),
      "embeddings are f32[2, 63], expected floats [rows, 64]");
  const std::vector<Token> image = {1, 30};
  EXPECT_EQ(error_of(*decoder, {.sequence = &other, .tokens = image}),
            "token 30 is the model's 'image_token_id': images, videos and sounds are not supported "
            "yet, but for embeddings given in their place");
  const std::vector<Token> absent = {1, -5};
  EXPECT_EQ(error_of(*decoder, {.sequence = &other, .tokens = absent}),
            "token -5 lies outside the vocabulary of 32");
  EXPECT_EQ(error_of(*decoder, {.sequence = &other, .tokens = rows(0, 2), .adapter = 3}),
            "adapter 3 is asked for: adapters are not supported yet");
}

TEST_F(ItemsTest, a_decoder_of_embeddings_alone_takes_those) {
  const std::string folder = make_decoder_folder(0, {"embeddings"});
  if (folder.empty()) GTEST_SKIP() << "make_decoder.py needs build/venv";
  DecoderOptions options;
  options.overlay = R"({"model": {"type": "llama", "embedding": null}})";
  const Decoder decoder(folder, options);
  Sequence sequence = decoder.new_sequence();
  EXPECT_EQ(error_of(decoder, {.sequence = &sequence, .tokens = rows(0, 1)}),
            "row 0 is token 0: the model takes embeddings only, and its folder has no program that "
            "makes them of tokens");
  const auto plain = open({}, "ref");
  Sequence text = plain->new_sequence();
  const EmbeddedRows all{0, embed(decoder, prompt_)};
  const std::vector<Token> any(30, -1);
  EXPECT_EQ(run(decoder, {.sequence = &sequence, .tokens = any, .embedded = {&all, 1}}),
            run(*plain, {.sequence = &text, .tokens = prompt_}));
}

TEST_F(ItemsTest, prompts_of_parts_go_on_where_contents_are_the_same) {
  const auto decoder = open({"features", "mrope"});
  SKIP_WITHOUT(decoder);
  search::SearchOptions options;
  options.max_new_tokens = 4;
  options.chunk_size = 3;
  const Embeddings image = embed(*decoder, rows(10, 8));
  const Numbers positions = {5, 5, 5, 5, 5, 5, 5, 5,  //
                             5, 5, 5, 5, 6, 6, 6, 6,  //
                             5, 6, 7, 8, 5, 6, 7, 8};
  const PromptPart parts[] = {{.tokens = rows(0, 5)},
                              {.embeddings = image, .positions = positions},
                              {.tokens = rows(18, 6)}};
  Generator generator(decoder);
  generator.add({}, options);
  generator.append_parts(0, parts);
  EXPECT_EQ(generator.tokens(0).size(), 19U);
  EXPECT_EQ(generator.tokens(0)[5], image.token(0));
  EXPECT_LT(generator.tokens(0)[12], 0);
  while (generator.generate_next_token()) {
  }
  const std::vector<Token> answer(generator.tokens(0).begin() + 19, generator.tokens(0).end());

  // The same in one step.
  Sequence sequence = decoder->new_sequence();
  std::vector<Token> tokens(generator.tokens(0).begin(), generator.tokens(0).begin() + 19);
  const EmbeddedRows own{5, image};
  Numbers told;
  for (size_t axis = 0; axis < 3; ++axis) {
    for (int64_t i = 0; i < 5; ++i) told.push_back(i);
    const auto at = positions.begin() + static_cast<int64_t>(axis) * 8;
    told.insert(told.end(), at, at + 8);
    for (int64_t i = 9; i < 15; ++i) told.push_back(i);
  }
  const Values logits =
      run(*decoder,
          {.sequence = &sequence, .tokens = tokens, .embedded = {&own, 1}, .positions = told});
  EXPECT_EQ(search::choose_largest(std::span(logits).last(32)), answer.front());

  // A second turn, by tokens as listed and by parts: only what is new is run.
  const int64_t before = generator.rows_run();
  std::vector<Token> longer(generator.tokens(0).begin(), generator.tokens(0).end());
  longer.insert(longer.end(), prompt_.begin(), prompt_.begin() + 2);
  generator.replace_tokens(0, longer);
  generator.compute_logits();
  // The answer's last token was not run before.
  EXPECT_EQ(generator.rows_run() - before, 3);
  const Values second(generator.logits(0).begin(), generator.logits(0).end());
  const std::vector<Token> added = [&] {
    std::vector<Token> text(prompt_.begin() + 18, prompt_.begin() + 24);
    text.insert(text.end(), answer.begin(), answer.end());
    text.insert(text.end(), prompt_.begin(), prompt_.begin() + 2);
    return text;
  }();
  const PromptPart again[] = {parts[0], parts[1], {.tokens = added}};
  generator.replace_parts(0, again);
  generator.compute_logits();
  EXPECT_EQ(generator.rows_run() - before, 4);
  EXPECT_EQ(Values(generator.logits(0).begin(), generator.logits(0).end()), second);
  Generator anew(decoder);
  anew.add({}, options);
  anew.append_parts(0, again);
  anew.compute_logits();
  EXPECT_EQ(Values(anew.logits(0).begin(), anew.logits(0).end()), second);

  // Another picture, or the same elsewhere, is run again.
  PromptPart other[] = {parts[0], {.embeddings = embed(*decoder, rows(9, 8))}, {.tokens = added}};
  other[1].positions = positions;
  generator.replace_parts(0, other);
  generator.compute_logits();
  EXPECT_EQ(generator.rows_run() - before, 4 + static_cast<int64_t>(8 + added.size()));
  PromptPart moved[] = {parts[0], {.embeddings = other[1].embeddings}, {.tokens = added}};
  generator.replace_parts(0, moved);
  generator.compute_logits();
  EXPECT_EQ(generator.rows_run() - before, 4 + 2 * static_cast<int64_t>(8 + added.size()) - 1);
  EXPECT_THROW(generator.replace_tokens(0, std::vector<Token>{3, -7}), Error);
}

TEST_F(ItemsTest, one_step_samples_and_takes_the_largest) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, std::vector<std::string>{"items"}}) {
    const auto decoder = open(flags);
    SKIP_WITHOUT(decoder);
    search::SearchOptions greedy;
    search::SearchOptions drawn;
    drawn.do_sample = true;
    drawn.temperature = 2;
    drawn.repetition_penalty = 1.3;
    drawn.random_seed = 11;
    greedy.max_length = drawn.max_length = 20;
    Generator generator(decoder);
    generator.add(rows(0, 9), greedy);
    generator.add(rows(4, 5), drawn);
    while (generator.generate_next_token()) {
    }
    // The same by steps alone.
    std::vector<Token> histories[] = {{prompt_.begin(), prompt_.begin() + 9},
                                      {prompt_.begin() + 4, prompt_.begin() + 9}};
    Sequence sequences[] = {decoder->new_sequence(), decoder->new_sequence()};
    const Token end = 31;
    for (size_t step = 0; step < 15; ++step) {
      std::vector<StepRequest> requests;
      std::vector<search::SamplingBlock> blocks;
      Token chosen[2] = {-1, -1};
      for (size_t i = 0; i < 2; ++i) {
        blocks.push_back({.options = i == 0 ? &greedy : &drawn,
                          .history = {histories[i], i == 0 ? size_t{9} : size_t{5}},
                          .ends = {&end, 1},
                          .longest = 20,
                          .seed = 11});
      }
      for (size_t i = 0; i < 2; ++i) {
        if (histories[i].size() == 20 || histories[i].back() == end) continue;
        const auto past = static_cast<size_t>(sequences[i].length());
        requests.push_back({.sequence = &sequences[i],
                            .tokens = std::span(histories[i]).subspan(past),
                            .sampling = &blocks[i],
                            .chosen = &chosen[i]});
      }
      if (requests.empty()) break;
      decoder->step(requests);
      for (size_t i = 0; i < 2; ++i) {
        if (chosen[i] >= 0) histories[i].push_back(chosen[i]);
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(std::ranges::equal(histories[i], generator.tokens(i))) << i;
    }
  }
}

TEST_F(ItemsTest, a_token_mask_leaves_what_it_allows) {
  const auto decoder = open({});
  SKIP_WITHOUT(decoder);
  search::SearchOptions options;
  options.max_new_tokens = 3;
  Generator free(decoder);
  free.add(rows(0, 9), options);
  free.compute_logits();
  const Values logits(free.logits(0).begin(), free.logits(0).end());
  std::vector<Token> order(32);
  for (Token i = 0; i < 32; ++i) order[static_cast<size_t>(i)] = i;
  std::ranges::sort(order, std::greater<>(),
                    [&](Token t) { return logits[static_cast<size_t>(t)]; });

  Generator generator(decoder);
  generator.add(rows(0, 9), options);
  const uint32_t some = uint32_t{1} << order[5] | uint32_t{1} << order[9];
  generator.set_token_mask(0, {&some, 1});
  generator.generate_next_token();
  EXPECT_EQ(generator.tokens(0).back(), order[5]);
  // It was for one token.
  Generator forced(decoder);
  std::vector<Token> tokens(prompt_.begin(), prompt_.begin() + 9);
  tokens.push_back(order[5]);
  forced.add(tokens, options);
  forced.generate_next_token();
  generator.generate_next_token();
  EXPECT_EQ(generator.tokens(0).back(), forced.tokens(0).back());
  // Going back forgets it.
  generator.set_token_mask(0, {&some, 1});
  generator.rewind_to(0, 9);
  generator.generate_next_token();
  EXPECT_EQ(generator.tokens(0).back(), order[0]);

  const auto message = [&](auto&& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  const uint32_t none = 0;
  EXPECT_EQ(message([&] { generator.set_token_mask(0, {&none, 1}); }),
            "a token mask allows none of 32 tokens");
  const uint32_t two[] = {1, 1};
  EXPECT_EQ(message([&] { generator.set_token_mask(0, two); }),
            "a token mask has 2 words, expected 1 for a vocabulary of 32");
  options.suppress_tokens = {order[5], order[9]};
  Generator ruled(decoder);
  ruled.add(rows(0, 9), options);
  ruled.set_token_mask(0, {&some, 1});
  EXPECT_EQ(message([&] { ruled.generate_next_token(); }),
            "no token is left after 9 of them: all that the mask allows are ruled out");
  // Nothing has happened.
  EXPECT_EQ(ruled.tokens(0).size(), 9U);
  ruled.set_token_mask(0, {});
  ruled.generate_next_token();
  EXPECT_EQ(ruled.tokens(0).back(), order[0]);
  options.num_beams = 2;
  Generator beams(decoder);
  beams.add(rows(0, 9), options);
  EXPECT_EQ(message([&] { beams.set_token_mask(0, {&some, 1}); }),
            "prompt 0 will have 2 beams and 1 sequences: a token mask is for one");

  // Draws, and a step's own block; a step whose choice fails leaves the sequence as it was.
  options.num_beams = 1;
  options.suppress_tokens.clear();
  options.do_sample = true;
  options.random_seed = 3;
  const std::vector<Token> history(prompt_.begin(), prompt_.begin() + 9);
  search::SamplingBlock block{.options = &options, .history = {history, 9}, .mask = {&some, 1}};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Sequence sequence = decoder->new_sequence();
    Token chosen = -1;
    block.seed = seed;
    const StepRequest request{
        .sequence = &sequence, .tokens = history, .sampling = &block, .chosen = &chosen};
    decoder->step({&request, 1});
    EXPECT_TRUE(chosen == order[5] || chosen == order[9]) << chosen;
  }
  options.suppress_tokens = {order[5], order[9]};
  Sequence sequence = decoder->new_sequence();
  Token chosen = -1;
  const StepRequest request{
      .sequence = &sequence, .tokens = history, .sampling = &block, .chosen = &chosen};
  EXPECT_NE(error_of(*decoder, request).find("ruled out"), std::string::npos);
  EXPECT_EQ(sequence.length(), 0);
}

}  // namespace
}  // namespace lathe::llm
