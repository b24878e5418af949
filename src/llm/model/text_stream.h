// SPDX-License-Identifier: MIT
// Text of generated tokens as they arrive, up to the first stop string. Copies are independent.
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

  // Appends a token; ignored after a stop string.
  void push(search::Token token);
  void push(std::span<const search::Token> tokens);
  // Appends the text held back for stop strings and incomplete characters.
  void finish();

  // Text that no later token changes.
  const std::string& text() const { return text_; }
  std::optional<size_t> stop() const { return stops_.found(); }  // index of the stop string found

 private:
  tokenizer::DecodeStream decode_;
  tokenizer::StopStrings stops_;
  std::vector<search::Token> ends_;
  std::string text_;
  std::string piece_;  // text of one token, reused
};

}  // namespace lathe::llm
