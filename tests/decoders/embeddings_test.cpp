// SPDX-License-Identifier: MIT
// Embeddings in place of tokens, and models that accept nothing else.
#include <filesystem>

#include "llm/model/sequence_file.h"
#include "ops/support/token_choice.h"
#include "tests/decoders/items_fixture.h"

namespace lathe::llm {
namespace {

class EmbeddedTokensTest : public ItemsTest {};

class EmbeddingsTest : public ItemsTest,
                       public testing::WithParamInterface<std::vector<std::string>> {};

// One decoder takes tokens, the other embeddings; both have the same weights.
TEST_P(EmbeddingsTest, match_a_decoder_of_tokens) {
  std::vector<std::string> flags = GetParam();
  const auto decoder = open(flags);
  flags.erase(flags.begin());
  const auto plain = open(flags);
  SKIP_WITHOUT(decoder);
  EXPECT_TRUE(decoder->notes().embeds);
  EXPECT_EQ(decoder->notes().embedding_not_packed_reason.empty(), GetParam()[0] == "embeddings");
  Sequence sequence = plain->new_sequence();
  const Values expected = run(*plain, {.sequence = &sequence, .tokens = prompt_});
  Sequence text = decoder->new_sequence();
  EXPECT_EQ(run(*decoder, {.sequence = &text, .tokens = prompt_}), expected);

  const EmbeddedTokens image{4, embed(*decoder, prompt_tokens(4, 11))};
  std::vector<Token> tokens = prompt_;
  for (int64_t i = 0; i < 11; ++i) tokens[static_cast<size_t>(4 + i)] = image.embeddings.token(i);
  Sequence mixed = decoder->new_sequence();
  EXPECT_EQ(run(*decoder, {.sequence = &mixed, .tokens = tokens, .embedded = {&image, 1}}),
            expected);
  // The placeholder of an embedding does not matter, even the image token.
  std::ranges::fill(std::span(tokens).subspan(4, 11), 30);
  Sequence placed = decoder->new_sequence();
  EXPECT_EQ(run(*decoder, {.sequence = &placed, .tokens = tokens, .embedded = {&image, 1}}),
            expected);
  const EmbeddedTokens all{0, embed(*decoder, prompt_)};
  Sequence given = decoder->new_sequence();
  Sequence beside = decoder->new_sequence();
  const std::vector<Token> any(30, -1);
  const StepRequest both[] = {
      {.sequence = &beside, .tokens = prompt_tokens(0, 7), .logits = LogitPositions::all()},
      {.sequence = &given, .tokens = any, .logits = LogitPositions::all(), .embedded = {&all, 1}}};
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

// Past 24 tokens all run again, with other LongRoPE cos/sin caches.
TEST_F(EmbeddedTokensTest, embeddings_can_run_again) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"items"}}) {
    std::vector<std::string> flags = {"embeddings", "switch"};
    flags.insert(flags.end(), more.begin(), more.end());
    const auto decoder = open(flags);
    SKIP_WITHOUT(decoder);
    Sequence whole = decoder->new_sequence();
    const Values expected = run(*decoder, {.sequence = &whole, .tokens = prompt_});
    const EmbeddedTokens image{2, embed(*decoder, prompt_tokens(8, 5))};
    std::vector<Token> tokens(prompt_.begin() + 6, prompt_.begin() + 20);
    std::fill_n(tokens.begin() + 2, 5, -1);
    Sequence sequence = decoder->new_sequence();
    run(*decoder, {.sequence = &sequence, .tokens = prompt_tokens(0, 6)});
    run(*decoder, {.sequence = &sequence, .tokens = tokens, .embedded = {&image, 1}});
    Sequence restored = restore_sequence(sequence.shared_layout(), save_sequence(sequence), 16384);
    Sequence fork = sequence;
    for (Sequence* each : {&sequence, &restored, &fork}) {
      const Values rest = run(*decoder, {.sequence = each, .tokens = prompt_tokens(20, 10)});
      EXPECT_EQ(rest, last(expected, 10));
      EXPECT_EQ(each->length(), 30);
    }
  }
}

TEST_F(EmbeddedTokensTest, programs_may_have_other_inputs_per_token) {
  for (const std::string flag : {"layers", "both"}) {
    const auto packed = open({flag});
    const auto single = open({flag, "items"});
    SKIP_WITHOUT(packed);
    EXPECT_TRUE(packed->packed()) << packed->notes().not_packed_reason;
    EXPECT_FALSE(single->packed());
    Sequence one = packed->new_sequence();
    Sequence two = single->new_sequence();
    const Values a = run(*packed, {.sequence = &one, .tokens = prompt_});
    const Values b = run(*single, {.sequence = &two, .tokens = prompt_});
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-3) << flag << " " << i;
    // Embeddings with their real token ids.
    const EmbeddedTokens image{3, embed(*packed, prompt_tokens(3, 20))};
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

TEST_F(EmbeddedTokensTest, invalid_embeddings_are_refused) {
  const auto plain = open({});
  const auto decoder = open({"embeddings"});
  SKIP_WITHOUT(plain);
  const EmbeddedTokens good{1, embed(*decoder, prompt_tokens(0, 2))};
  Sequence sequence = plain->new_sequence();
  EXPECT_EQ(
      error_of(*plain,
               {.sequence = &sequence, .tokens = prompt_tokens(0, 3), .embedded = {&good, 1}}),
      "embeddings are f32[2, 64], but the model accepts token ids only");
  Sequence other = decoder->new_sequence();
  EXPECT_EQ(error_of(*decoder,
                     {.sequence = &other, .tokens = prompt_tokens(0, 2), .embedded = {&good, 1}}),
            "embeddings cover tokens 1 to 3 of 2, the previous ones end at 0");
  const EmbeddedTokens narrow{0, make_embeddings(Tensor(ElementType::f32, {2, 63}))};
  EXPECT_EQ(error_of(*decoder,
                     {.sequence = &other, .tokens = prompt_tokens(0, 2), .embedded = {&narrow, 1}}),
            "embeddings are f32[2, 63], expected floats [tokens, 64]");
  const std::vector<Token> image = {1, 30};
  EXPECT_EQ(error_of(*decoder, {.sequence = &other, .tokens = image}),
            "token 30 is the model's 'image_token_id': images, videos and audio are supported "
            "only as embeddings");
  const std::vector<Token> absent = {1, -5};
  EXPECT_EQ(error_of(*decoder, {.sequence = &other, .tokens = absent}),
            "token -5 lies outside the vocabulary of 32");
  EXPECT_EQ(error_of(*decoder, {.sequence = &other, .tokens = prompt_tokens(0, 2), .adapter = 3}),
            "adapter 3 is requested, but adapters are not supported");
}

TEST_F(EmbeddedTokensTest, images_are_refused_by_name) {
  const auto decoder = open({"features"});
  SKIP_WITHOUT(decoder);
  Generator generator(decoder);
  generator.add({}, {});
  try {
    generator.set_model_input(0, "pixel_values", Tensor(ElementType::f32, {1, 3, 8, 8}));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_EQ(error.message(),
              "input 'pixel_values' belongs to the model's 'vision' program: images, videos and "
              "audio are supported only as embeddings");
  }
}

// Folders whose programs are signatures without nodes.
TEST_F(EmbeddedTokensTest, vision_models_run_on_text) {
  const std::string genai = "../shared/models/genai/";
  if (!std::filesystem::exists(genai)) GTEST_SKIP() << "missing " << genai;
  for (const char* name :
       {"multimodal-decoder-no-input-ids", "multimodal-decoder-with-input-ids", "qwen3-5"}) {
    const auto decoder = std::make_shared<const Decoder>(genai + name);
    EXPECT_TRUE(decoder->notes().embeds) << name;
    search::SearchOptions options;
    options.max_new_tokens = 3;
    Generator generator(decoder);
    generator.add(prompt_tokens(0, 2), options);
    generator.add(prompt_tokens(0, 1), options);
    while (generator.generate_next_token()) {
    }
    for (size_t prompt = 0; prompt < 2; ++prompt) {
      EXPECT_EQ(generator.tokens(prompt).size(), 5 - prompt) << name;
    }
  }
}

TEST_F(EmbeddedTokensTest, a_decoder_of_embeddings_runs_without_token_ids) {
  const std::string folder = make_decoder_folder(0, {"embeddings"});
  if (folder.empty()) GTEST_SKIP() << "make_decoder.py requires build/venv";
  DecoderOptions options;
  options.overlay = R"({"model": {"type": "llama", "embedding": null}})";
  const Decoder decoder(folder, options);
  Sequence sequence = decoder.new_sequence();
  EXPECT_EQ(error_of(decoder, {.sequence = &sequence, .tokens = prompt_tokens(0, 1)}),
            "input 0 is token id 0: the model accepts embeddings only, and its folder has no "
            "embedding program");
  const auto plain = open({}, "ref");
  Sequence text = plain->new_sequence();
  const EmbeddedTokens all{0, embed(decoder, prompt_)};
  const std::vector<Token> any(30, -1);
  EXPECT_EQ(run(decoder, {.sequence = &sequence, .tokens = any, .embedded = {&all, 1}}),
            run(*plain, {.sequence = &text, .tokens = prompt_}));
}

TEST_F(EmbeddedTokensTest, prompts_of_parts_keep_the_common_prefix) {
  const auto decoder = open({"features", "mrope"});
  SKIP_WITHOUT(decoder);
  search::SearchOptions options;
  options.max_new_tokens = 4;
  options.chunk_size = 3;
  const Embeddings image = embed(*decoder, prompt_tokens(10, 8));
  const Numbers positions = {5, 5, 5, 5, 5, 5, 5, 5,  //
                             5, 5, 5, 5, 6, 6, 6, 6,  //
                             5, 6, 7, 8, 5, 6, 7, 8};
  const PromptPart parts[] = {{.tokens = prompt_tokens(0, 5)},
                              {.embeddings = image, .positions = positions},
                              {.tokens = prompt_tokens(18, 6)}};
  Generator generator(decoder);
  generator.add({}, options);
  generator.append_parts(0, parts);
  EXPECT_EQ(generator.tokens(0).size(), 19U);
  EXPECT_EQ(generator.tokens(0)[5], image.token(0));
  EXPECT_LT(generator.tokens(0)[12], 0);
  while (generator.generate_next_token()) {
  }
  const std::vector<Token> answer(generator.tokens(0).begin() + 19, generator.tokens(0).end());

  // Runs all of them in one step.
  Sequence sequence = decoder->new_sequence();
  std::vector<Token> tokens(generator.tokens(0).begin(), generator.tokens(0).begin() + 19);
  const EmbeddedTokens own{5, image};
  Numbers explicit_ids;
  for (size_t axis = 0; axis < 3; ++axis) {
    for (int64_t i = 0; i < 5; ++i) explicit_ids.push_back(i);
    const auto at = positions.begin() + static_cast<int64_t>(axis) * 8;
    explicit_ids.insert(explicit_ids.end(), at, at + 8);
    for (int64_t i = 9; i < 15; ++i) explicit_ids.push_back(i);
  }
  const Values logits = run(
      *decoder,
      {.sequence = &sequence, .tokens = tokens, .embedded = {&own, 1}, .positions = explicit_ids});
  EXPECT_EQ(choose_largest(std::span(logits).last(32)), answer.front());

  // A second chat turn, by listed tokens and by parts, runs only new tokens.
  const int64_t before = generator.tokens_run();
  std::vector<Token> longer(generator.tokens(0).begin(), generator.tokens(0).end());
  longer.insert(longer.end(), prompt_.begin(), prompt_.begin() + 2);
  generator.replace_tokens(0, longer);
  generator.compute_logits();
  // The answer's last token has not run yet.
  EXPECT_EQ(generator.tokens_run() - before, 3);
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
  EXPECT_EQ(generator.tokens_run() - before, 4);
  EXPECT_EQ(Values(generator.logits(0).begin(), generator.logits(0).end()), second);
  Generator fresh(decoder);
  fresh.add({}, options);
  fresh.append_parts(0, again);
  fresh.compute_logits();
  EXPECT_EQ(Values(fresh.logits(0).begin(), fresh.logits(0).end()), second);

  // Another image, or the same one elsewhere, runs again.
  PromptPart other[] = {
      parts[0], {.embeddings = embed(*decoder, prompt_tokens(9, 8))}, {.tokens = added}};
  other[1].positions = positions;
  generator.replace_parts(0, other);
  generator.compute_logits();
  EXPECT_EQ(generator.tokens_run() - before, 4 + static_cast<int64_t>(8 + added.size()));
  PromptPart moved[] = {parts[0], {.embeddings = other[1].embeddings}, {.tokens = added}};
  generator.replace_parts(0, moved);
  generator.compute_logits();
  EXPECT_EQ(generator.tokens_run() - before, 4 + 2 * static_cast<int64_t>(8 + added.size()) - 1);
  EXPECT_THROW(generator.replace_tokens(0, std::vector<Token>{3, -7}), Error);
}

}  // namespace
}  // namespace lathe::llm
