// SPDX-License-Identifier: MIT
// A conversation with a model. Each turn renders all messages, but keeps the tokens of earlier
// answers and runs only new tokens.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/model/generator.h"
#include "llm/template/chat_template.h"

namespace lathe::llm {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct ChatOptions {
  search::SearchOptions search{};  // one sequence, no beams
  std::string system{};
  std::string variables{};  // of the template, a JSON object
};

// Renders all messages and the generation prompt.
std::string render_messages(const templates::ChatTemplates& templates,
                            const std::vector<ChatMessage>& messages, const std::string& variables);

class Chat {
 public:
  Chat(std::shared_ptr<const Decoder> decoder,
       std::shared_ptr<const tokenizer::Tokenizer> tokenizer, templates::ChatTemplates templates,
       ChatOptions options);

  // Starts a turn with the user's message. If the new rendering does not extend the old one, keeps
  // the longest common prefix of tokens. InvalidArgument, without changes, if the conversation is
  // too long or the template fails.
  void say(const std::string& text);
  // Generates one token of the answer; returns false once it is complete. Cancellation and
  // deadlines leave it unchanged.
  bool next(const CancelToken* cancel = nullptr,
            std::optional<Clock::time_point> deadline = std::nullopt);
  std::string_view answer() const;  // text that no later token changes

  void clear();                               // drops the conversation
  void set_system(std::string text);          // effective from the next turn
  std::vector<ChatMessage> messages() const;  // with the unfinished answer

  // Token counts of this turn.
  struct Turn {
    size_t kept = 0;    // tokens kept from before
    size_t prompt = 0;  // tokens before the answer
    size_t answer = 0;  // tokens of the answer, with the end token
    FinishReason reason = FinishReason::none;
  };
  Turn turn() const;
  std::span<const Token> tokens() const;  // of the conversation
  int64_t tokens_run() const;             // since construction or clear()

 private:
  std::vector<Token> encode(std::string_view text) const;
  std::vector<Token> plan_turn(const std::string& rendered, size_t& kept) const;
  void check_room(size_t length) const;
  void begin();

  std::shared_ptr<const Decoder> decoder_;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  templates::ChatTemplates templates_;
  ChatOptions options_;
  std::unique_ptr<Generator> generator_;
  std::vector<ChatMessage> messages_;  // without the system message and the unfinished answer
  std::string rendered_;               // text of the tokens before the answer
  bool answering_ = false;
  size_t kept_ = 0;
};

}  // namespace lathe::llm
