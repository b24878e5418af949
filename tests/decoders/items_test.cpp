// SPDX-License-Identifier: MIT
// Results of a step's requests: logits of its tokens, and a token sampled by its own options.
#include "tests/decoders/items_fixture.h"

namespace lathe::llm {
namespace {

TEST_F(ItemsTest, logits_are_those_of_the_requested_tokens) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, std::vector<std::string>{"items"}}) {
    const auto decoder = open(flags);
    SKIP_WITHOUT(decoder);
    const Sequence empty = decoder->new_sequence();
    Sequence all = empty;
    const Values logits = run(*decoder, {.sequence = &all, .tokens = prompt_});
    const auto logits_of = [&](LogitPositions positions) {
      Sequence sequence = empty;
      const StepRequest request{.sequence = &sequence, .tokens = prompt_, .logits = positions};
      const Tensor given = decoder->step({&request, 1});
      EXPECT_EQ(sequence.length(), 30);
      return Values(given.as<float>(), given.as<float>() + given.count());
    };
    EXPECT_EQ(logits_of({}), last(logits, 1));
    EXPECT_EQ(logits_of(LogitPositions::range(24, 6)), last(logits, 6));
    EXPECT_TRUE(logits_of(LogitPositions::range(3, 0)).empty());
    const Numbers list = {29, 2, 2};
    Values expected = last(logits, 1);
    for (int i = 0; i < 2; ++i) {
      expected.insert(expected.end(), logits.begin() + 64, logits.begin() + 96);
    }
    EXPECT_EQ(logits_of(LogitPositions::list(list)), expected);
    Sequence sequence = empty;
    EXPECT_EQ(error_of(*decoder, {.sequence = &sequence,
                                  .tokens = prompt_,
                                  .logits = LogitPositions::range(29, 2)}),
              "the logits of token 30 of 30 are requested");
    // One request of the batch requests no logits.
    Sequence quiet = empty;
    Sequence loud = empty;
    const StepRequest both[] = {
        {.sequence = &quiet, .tokens = prompt_tokens(0, 4), .logits = LogitPositions::range(0, 0)},
        {.sequence = &loud, .tokens = prompt_, .logits = LogitPositions::range(28, 2)}};
    const Tensor given = decoder->step(both);
    EXPECT_EQ(Values(given.as<float>(), given.as<float>() + given.count()), last(logits, 2));
  }
}

TEST_F(ItemsTest, one_step_samples_and_searches_greedily) {
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{}, std::vector<std::string>{"items"}}) {
    const auto decoder = open(flags);
    SKIP_WITHOUT(decoder);
    search::SearchOptions greedy;
    search::SearchOptions sampled;
    sampled.do_sample = true;
    sampled.temperature = 2;
    sampled.repetition_penalty = 1.3;
    sampled.random_seed = 11;
    greedy.max_length = sampled.max_length = 20;
    Generator generator(decoder);
    generator.add(prompt_tokens(0, 9), greedy);
    generator.add(prompt_tokens(4, 5), sampled);
    while (generator.generate_next_token()) {
    }
    // Repeats the test with one sequence per step.
    std::vector<Token> histories[] = {{prompt_.begin(), prompt_.begin() + 9},
                                      {prompt_.begin() + 4, prompt_.begin() + 9}};
    Sequence sequences[] = {decoder->new_sequence(), decoder->new_sequence()};
    const Token end = 31;
    for (size_t step = 0; step < 15; ++step) {
      std::vector<StepRequest> requests;
      std::vector<search::SamplingBlock> blocks;
      Token chosen[2] = {-1, -1};
      for (size_t i = 0; i < 2; ++i) {
        blocks.push_back({.options = i == 0 ? &greedy : &sampled,
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

TEST_F(ItemsTest, a_token_mask_restricts_the_choice) {
  const auto decoder = open({});
  SKIP_WITHOUT(decoder);
  search::SearchOptions options;
  options.max_new_tokens = 3;
  Generator free(decoder);
  free.add(prompt_tokens(0, 9), options);
  free.compute_logits();
  const Values logits(free.logits(0).begin(), free.logits(0).end());
  std::vector<Token> order(32);
  for (Token i = 0; i < 32; ++i) order[static_cast<size_t>(i)] = i;
  std::ranges::sort(order, std::greater<>(),
                    [&](Token t) { return logits[static_cast<size_t>(t)]; });

  Generator generator(decoder);
  generator.add(prompt_tokens(0, 9), options);
  const uint32_t some = uint32_t{1} << order[5] | uint32_t{1} << order[9];
  generator.set_token_mask(0, {&some, 1});
  generator.generate_next_token();
  EXPECT_EQ(generator.tokens(0).back(), order[5]);
  // The mask applied to one token.
  Generator forced(decoder);
  std::vector<Token> tokens(prompt_.begin(), prompt_.begin() + 9);
  tokens.push_back(order[5]);
  forced.add(tokens, options);
  forced.generate_next_token();
  generator.generate_next_token();
  EXPECT_EQ(generator.tokens(0).back(), forced.tokens(0).back());
  // A rewind drops the mask.
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
            "a token mask has none of 32 tokens");
  const uint32_t two[] = {1, 1};
  EXPECT_EQ(message([&] { generator.set_token_mask(0, two); }),
            "a token mask has 2 words, expected 1 for a vocabulary of 32");
  options.suppress_tokens = {order[5], order[9]};
  Generator ruled(decoder);
  ruled.add(prompt_tokens(0, 9), options);
  ruled.set_token_mask(0, {&some, 1});
  EXPECT_EQ(message([&] { ruled.generate_next_token(); }),
            "no token is left after 9 tokens: rules exclude all tokens of the mask");
  // The prompts are unchanged.
  EXPECT_EQ(ruled.tokens(0).size(), 9U);
  ruled.set_token_mask(0, {});
  ruled.generate_next_token();
  EXPECT_EQ(ruled.tokens(0).back(), order[0]);
  options.num_beams = 2;
  Generator beams(decoder);
  beams.add(prompt_tokens(0, 9), options);
  EXPECT_EQ(message([&] { beams.set_token_mask(0, {&some, 1}); }),
            "prompt 0 has 2 beams and 1 sequences: a token mask requires one of each");

  // Samples with the generator's and with a step's own block. A step whose sampling fails leaves
  // the sequence unchanged.
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
  EXPECT_NE(error_of(*decoder, request).find("rules exclude"), std::string::npos);
  EXPECT_EQ(sequence.length(), 0);
}

}  // namespace
}  // namespace lathe::llm
