// SPDX-License-Identifier: MIT
// A talk with a model. The template turns all messages into text for every turn, but tokens stay as
// they are: what the model said is never encoded again, and a turn runs new tokens only.
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

// What the model is to read for these messages: all of them, and the beginning of its turn.
std::string render_messages(const templates::ChatTemplates& templates,
                            const std::vector<ChatMessage>& messages, const std::string& variables);

class Chat {
 public:
  Chat(std::shared_ptr<const Decoder> decoder,
       std::shared_ptr<const tokenizer::Tokenizer> tokenizer, templates::ChatTemplates templates,
       ChatOptions options);

  // What the user says. If the new text does not go on from the old, the longest common beginning
  // of its tokens stays. InvalidArgument, and nothing is changed, if there is no room or the
  // template refuses.
  void say(const std::string& text);
  // One more token of the answer. False once it is whole; cancelled or late, it stays as it is.
  bool next(const CancelToken* cancel = nullptr,
            std::optional<Clock::time_point> deadline = std::nullopt);
  std::string_view answer() const;  // as far as it is certain

  void clear();                               // forgets all that was said
  void set_system(std::string text);          // from the next turn on
  std::vector<ChatMessage> messages() const;  // the answer under way included

  // Of this turn.
  struct Turn {
    size_t kept = 0;    // tokens that were there before
    size_t prompt = 0;  // all tokens before the answer
    size_t answer = 0;  // tokens, the end token included
    FinishReason reason = FinishReason::none;
  };
  Turn turn() const;
  std::span<const Token> tokens() const;  // of the whole talk
  int64_t tokens_run() const;             // since the talk began

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
  std::vector<ChatMessage> messages_;  // without the system's and the answer under way
  std::string rendered_;               // what the tokens before the answer say
  bool answering_ = false;
  size_t kept_ = 0;
};

}  // namespace lathe::llm
