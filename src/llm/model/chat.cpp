// SPDX-License-Identifier: MIT
#include "llm/model/chat.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace lathe::llm {

std::string render_messages(const templates::ChatTemplates& templates,
                            const std::vector<ChatMessage>& messages,
                            const std::string& variables) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const ChatMessage& message : messages) {
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  templates::ChatRequest request;
  request.messages = list.dump(-1, ' ', false, Json::error_handler_t::replace);
  request.variables = variables;
  request.add_generation_prompt = true;
  return templates.render(request).text;
}

Chat::Chat(std::shared_ptr<const Decoder> decoder,
           std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
           templates::ChatTemplates templates, ChatOptions options)
    : decoder_(std::move(decoder)),
      tokenizer_(std::move(tokenizer)),
      templates_(std::move(templates)),
      options_(std::move(options)) {
  check(options_.search.num_beams == 1 && options_.search.num_return_sequences == 1,
        ErrorKind::invalid_argument,
        "a chat has one answer: num_beams is {} and num_return_sequences is {}",
        options_.search.num_beams, options_.search.num_return_sequences);
  begin();
}

void Chat::begin() {
  generator_ = std::make_unique<Generator>(decoder_, tokenizer_);
  generator_->add({}, options_.search);
}

std::vector<Token> Chat::encode(std::string_view text) const {
  tokenizer::EncodeOptions options;
  options.add_special_tokens = false;  // the template has written them
  const tokenizer::Encoding encoding = tokenizer_->encode(text, options);
  return {encoding.ids.begin(), encoding.ids.end()};
}

void Chat::check_room(size_t length) const {
  int64_t most = decoder_->config().context_length;
  if (options_.search.max_length > 0) most = std::min(most, options_.search.max_length);
  check(static_cast<int64_t>(length) < most, ErrorKind::invalid_argument,
        "the conversation has {} tokens with this message, which leaves no room for an answer "
        "below {}",
        length, most);
}

// Tokens that extend the first `kept` ones of the conversation to `rendered`.
std::vector<Token> Chat::plan_turn(const std::string& rendered, size_t& kept) const {
  const std::span<const Token> held = generator_->tokens(0);
  const Output output = generator_->outputs(0).front();
  std::vector<uint32_t> answer(output.generated().begin(), output.generated().end());
  // The template writes the end token.
  std::string end;
  const auto& ends = decoder_->config().end_tokens;
  if (!answer.empty() && std::ranges::find(ends, int64_t{answer.back()}) != ends.end()) {
    end = tokenizer_->decode({&answer.back(), 1}, false);
    answer.pop_back();
  }
  const std::string text = tokenizer_->decode(answer);
  std::string_view rest = rendered;
  if (!rendered_.empty() && text == output.text && rest.starts_with(rendered_) &&
      rest.substr(rendered_.size()).starts_with(text)) {
    rest.remove_prefix(rendered_.size() + text.size());
    kept = output.prompt + answer.size();
    if (!end.empty() && rest.starts_with(end)) {
      rest.remove_prefix(end.size());
      ++kept;
    }
    return encode(rest);
  }
  const std::vector<Token> all = encode(rendered);
  const auto [mine, others] = std::ranges::mismatch(held, all);
  kept = static_cast<size_t>(mine - held.begin());
  return {others, all.end()};
}

void Chat::say(const std::string& text) {
  std::vector<ChatMessage> all = messages();
  all.push_back({"user", text});
  std::string rendered = render_messages(templates_, all, options_.variables);
  size_t kept = 0;
  const std::vector<Token> added = plan_turn(rendered, kept);
  check_room(kept + added.size());
  check(kept + added.size() > 0, ErrorKind::invalid_argument,
        "the template renders {} messages to an empty string", all.size());
  for (const Token token : added) {
    check(token < decoder_->vocabulary(), ErrorKind::invalid_model,
          "the tokenizer has token {}, but the model's vocabulary has {}", token,
          decoder_->vocabulary());
  }
  std::vector<Token> tokens(generator_->tokens(0).begin(),
                            generator_->tokens(0).begin() + static_cast<int64_t>(kept));
  tokens.insert(tokens.end(), added.begin(), added.end());
  generator_->replace_tokens(0, tokens);
  kept_ = kept;
  rendered_ = std::move(rendered);
  if (!options_.system.empty()) all.erase(all.begin());
  messages_ = std::move(all);
  answering_ = true;
}

bool Chat::next(const CancelToken* cancel, std::optional<Clock::time_point> deadline) {
  return answering_ && generator_->generate_next_token(cancel, deadline);
}

std::string_view Chat::answer() const {
  return answering_ ? generator_->text(0) : std::string_view();
}

void Chat::clear() {
  messages_.clear();
  rendered_.clear();
  answering_ = false;
  kept_ = 0;
  begin();
}

void Chat::set_system(std::string text) { options_.system = std::move(text); }

std::vector<ChatMessage> Chat::messages() const {
  std::vector<ChatMessage> all;
  if (!options_.system.empty()) all.push_back({"system", options_.system});
  all.insert(all.end(), messages_.begin(), messages_.end());
  if (answering_) all.push_back({"assistant", std::string(answer())});
  return all;
}

Chat::Turn Chat::turn() const {
  const Output output = generator_->outputs(0).front();
  return {kept_, output.prompt, output.generated().size(), output.reason};
}

std::span<const Token> Chat::tokens() const { return generator_->tokens(0); }

int64_t Chat::tokens_run() const { return generator_->tokens_run(); }

}  // namespace lathe::llm
