// SPDX-License-Identifier: MIT
#include "llm/model/text_stream.h"

#include <algorithm>

namespace lathe::llm {

using search::Token;

TextStream::TextStream(std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                       const std::vector<std::string>& stops, std::vector<Token> ends)
    : decode_(std::move(tokenizer)), stops_(stops), ends_(std::move(ends)) {}

void TextStream::push(Token token) {
  if (stop() || std::ranges::find(ends_, token) != ends_.end()) return;
  piece_.clear();
  decode_.step(static_cast<uint32_t>(token), piece_);
  stops_.push(piece_, text_);
}

void TextStream::push(std::span<const Token> tokens) {
  for (const Token token : tokens) push(token);
}

void TextStream::finish() {
  if (stop()) return;
  text_ += stops_.push(decode_.finish());
  text_ += stops_.finish();
}

}  // namespace lathe::llm
