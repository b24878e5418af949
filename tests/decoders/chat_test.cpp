// SPDX-License-Identifier: MIT
// Chats with the folder examples/counting: the token after n is n + 1, and 15 ends.
#include "llm/model/chat.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "llm/tokenizer/load.h"
#include "tests/decoders/zoo_folder.h"

namespace lathe::llm {
namespace {

const std::string kFolder = "examples/counting";

std::vector<Token> list(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

class ChatTest : public testing::Test {
 protected:
  Chat make(const std::string& source = "", ChatOptions options = {}) const {
    return {decoder_, tokenizer_,
            source.empty() ? templates::ChatTemplates::load(kFolder)
                           : templates::ChatTemplates::of(source),
            std::move(options)};
  }
  static std::string ask(Chat& chat, const std::string& text) {
    chat.say(text);
    while (chat.next()) {
    }
    return std::string(chat.answer());
  }
  // The answer after these tokens, at once.
  std::vector<Token> at_once(std::vector<Token> tokens) const {
    Generator generator(decoder_);
    generator.add(tokens, {});
    while (generator.generate_next_token()) {
    }
    return generator.outputs(0).front().tokens;
  }

  std::shared_ptr<const Decoder> decoder_ = std::make_shared<const Decoder>(kFolder);
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_ = tokenizer::load_tokenizer(kFolder);
};

TEST_F(ChatTest, a_second_turn_runs_only_new_tokens) {
  Chat chat = make();
  EXPECT_EQ(ask(chat, "ten"), "eleven twelve thirteen fourteen");
  EXPECT_EQ(chat.tokens_run(), 1 + 4) << "the end token is not run";
  EXPECT_EQ(ask(chat, "one twelve"), "thirteen fourteen");
  EXPECT_EQ(list(chat.tokens()), (std::vector<Token>{10, 11, 12, 13, 14, 15, 1, 12, 13, 14, 15}));
  EXPECT_EQ(chat.turn().kept, 6U);
  EXPECT_EQ(chat.turn().prompt, 8U);
  EXPECT_EQ(chat.turn().answer, 3U);
  EXPECT_EQ(chat.tokens_run(), 5 + 3 + 2);
  EXPECT_EQ(list(chat.tokens()), at_once({10, 11, 12, 13, 14, 15, 1, 12}));
}

TEST_F(ChatTest, a_template_that_drops_answers_keeps_the_common_prefix) {
  Chat chat = make("{% for m in messages if m.role != 'assistant' %}{{ m.content }} {% endfor %}");
  ask(chat, "three ten");
  EXPECT_EQ(ask(chat, "twelve"), "thirteen fourteen");
  EXPECT_EQ(list(chat.tokens()), (std::vector<Token>{3, 10, 12, 13, 14, 15}));
  EXPECT_EQ(chat.turn().kept, 2U);
  EXPECT_EQ(list(chat.tokens()), at_once({3, 10, 12}));
}

TEST_F(ChatTest, another_system_prompt_restarts) {
  Chat chat = make("", {.system = "one"});
  ask(chat, "ten");
  chat.set_system("two");
  EXPECT_EQ(ask(chat, "twelve"), "thirteen fourteen");
  EXPECT_EQ(chat.turn().kept, 0U);
  EXPECT_EQ(list(chat.tokens()).front(), 2);
  EXPECT_EQ(chat.messages().size(), 5U);
}

TEST_F(ChatTest, a_truncated_answer_stays_in_the_conversation) {
  Chat chat = make();
  chat.say("one");
  chat.next();
  chat.next();
  CancelToken cancel;
  cancel.cancel();
  EXPECT_THROW(chat.next(&cancel), Error);
  EXPECT_EQ(chat.answer(), "two three");
  EXPECT_EQ(ask(chat, "thirteen"), "fourteen");
  EXPECT_EQ(list(chat.tokens()), (std::vector<Token>{1, 2, 3, 15, 13, 14, 15}));
  EXPECT_EQ(chat.turn().kept, 3U);
}

TEST_F(ChatTest, answers_cut_at_stop_strings_keep_their_tokens) {
  ChatOptions options;
  options.search.stop_strings = {"three four"};
  Chat chat = make("", options);
  EXPECT_EQ(ask(chat, "one"), "two ");
  EXPECT_EQ(ask(chat, "thirteen"), "fourteen");
  EXPECT_EQ(list(chat.tokens()), (std::vector<Token>{1, 2, 15, 13, 14, 15}));
}

TEST_F(ChatTest, a_refused_message_changes_nothing) {
  Chat chat = make(
      "{% for m in messages %}{{ m.content }} {% if m.content == 'five' %}"
      "{{ raise_exception('not five') }}{% endif %}{% endfor %}");
  ask(chat, "twelve");
  const std::vector<Token> before = list(chat.tokens());
  EXPECT_THROW(chat.say("five"), Error);
  std::string longest;
  for (int i = 0; i < 300; ++i) longest += "one ";
  try {
    chat.say(longest);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "the conversation has 303 tokens with this message, which leaves no room for an "
              "answer below "
              "256");
  }
  EXPECT_EQ(list(chat.tokens()), before);
  EXPECT_EQ(chat.messages().size(), 2U);
  EXPECT_EQ(ask(chat, "thirteen"), "fourteen");
}

TEST_F(ChatTest, a_message_beyond_the_memory_limit_changes_nothing) {
  DecoderOptions options;
  options.memory_limit = 4096;  // 32 tokens
  const auto decoder = std::make_shared<const Decoder>(kFolder, options);
  Chat chat(decoder, tokenizer_,
            templates::ChatTemplates::of("{% for m in messages if m.role != "
                                         "'assistant' %}{{ m.content }} "
                                         "{% endfor %}"),
            {});
  ask(chat, "three ten");
  const std::vector<Token> before = list(chat.tokens());
  std::string longest;
  for (int i = 0; i < 40; ++i) longest += "one ";
  EXPECT_THROW(chat.say(longest), Error);
  EXPECT_EQ(list(chat.tokens()), before);
  EXPECT_EQ(ask(chat, "twelve"), "thirteen fourteen");
  EXPECT_EQ(list(chat.tokens()), (std::vector<Token>{3, 10, 12, 13, 14, 15}));
}

TEST_F(ChatTest, clearing_drops_all) {
  Chat chat = make();
  ask(chat, "ten");
  chat.clear();
  EXPECT_TRUE(chat.tokens().empty());
  EXPECT_TRUE(chat.messages().empty());
  EXPECT_EQ(ask(chat, "twelve"), "thirteen fourteen");
}

// States that cannot rewind restart at an earlier checkpoint and generate the tokens of one run.
class RecurrentTest : public testing::TestWithParam<const char*> {};

TEST_P(RecurrentTest, rewinding_equals_one_run) {
  const std::string folder = zoo_folder(GetParam());
  if (folder.empty()) GTEST_SKIP() << "missing ../shared/models/zoo/" << GetParam();
  const auto decoder = std::make_shared<const Decoder>(folder + "/fp32");
  search::SearchOptions options;
  options.max_new_tokens = 6;
  options.min_new_tokens = 6;
  Generator twice(decoder);
  const std::vector<Token> first = {11, 48, 85, 122};
  const std::vector<Token> second = {300, 17, 9};
  twice.add(first, options);
  while (twice.generate_next_token()) {
  }
  const std::vector<Token> held = list(twice.tokens(0));
  twice.append_tokens(0, second);
  while (twice.generate_next_token()) {
  }
  const std::vector<Token> answer = list(twice.tokens(0));
  twice.rewind_to(0, held.size());
  twice.append_tokens(0, second);
  while (twice.generate_next_token()) {
  }
  EXPECT_EQ(list(twice.tokens(0)), answer);
  Generator once(decoder);
  std::vector<Token> all = held;
  all.insert(all.end(), second.begin(), second.end());
  once.add(all, options);
  while (once.generate_next_token()) {
  }
  EXPECT_EQ(list(once.tokens(0)), answer);
}

INSTANTIATE_TEST_SUITE_P(types, RecurrentTest,
                         testing::Values("llama", "lfm2", "qwen3_5", "gemma2"),
                         [](const auto& type) { return std::string(type.param); });

}  // namespace
}  // namespace lathe::llm
