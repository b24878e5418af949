// SPDX-License-Identifier: MIT
// The text of generated tokens, as they come and up to the first stop string. A copy goes on by
// itself.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llm/search/search_options.h"
#include "llm/tokenizer/stream.h"

namespace lathe::llm {

class TextStream {
 public:
  // `ends`: tokens without text.
  TextStream(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
             const std::vector<std::string>& stops, std::vector<search::Token> ends);

  // Takes one more token. Nothing changes once a stop string was found.
  void push(search::Token token);
  void push(std::span<const search::Token> tokens);
  // No more tokens come: what was held back is text.
  void finish();

  // What is certainly before any stop string.
  const std::string& text() const { return text_; }
  std::optional<size_t> stop() const { return stops_.found(); }  // which stop string was found

 private:
  tokenizer::DecodeStream decode_;
  tokenizer::StopStrings stops_;
  std::vector<search::Token> ends_;
  std::string text_;
  std::string piece_;  // of one token after another
};

}  // namespace lathe::llm
