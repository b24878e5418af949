// SPDX-License-Identifier: MIT
#include "llm/tokenizer/word_piece.h"

#include <algorithm>

#include "base/error.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<uint8_t>(byte) & 0xC0) != 0x80;
  }));
}

uint32_t unknown_id(const Vocabulary& vocabulary, std::string_view unk_token) {
  const uint32_t id = vocabulary.find(unk_token);
  check(id != kNoId, ErrorKind::invalid_model,
        "model.unk_token '{}' is not in model.vocab, and the text has a word without a token",
        escape(unk_token));
  return id;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, std::string unk_token,
                     std::string continuing_subword_prefix, size_t max_input_chars_per_word)
    : Model(std::move(vocabulary)),
      unk_token_(std::move(unk_token)),
      prefix_(std::move(continuing_subword_prefix)),
      max_characters_(max_input_chars_per_word) {
  vocabulary_.for_each(
      [&](std::string_view token, uint32_t) { longest_ = std::max(longest_, token.size()); });
}

bool WordPiece::cut(std::string_view word, std::string& buffer, Tokens& tokens,
                    uint32_t piece) const {
  for (size_t start = 0; start < word.size();) {
    const size_t prefix = start > 0 ? prefix_.size() : 0;
    // Nothing beyond the longest token can match.
    size_t end = word.size();
    if (end - start + prefix > longest_) {
      if (longest_ <= prefix) return false;
      end = start + longest_ - prefix;
      while (end < word.size() && end > start && (static_cast<uint8_t>(word[end]) & 0xC0) == 0x80) {
        --end;
      }
    }
    uint32_t id = kNoId;
    for (; end > start; end = unicode::previous(word, end)) {
      std::string_view candidate = word.substr(start, end - start);
      if (prefix > 0) {
        buffer.assign(prefix_).append(candidate);
        candidate = buffer;
      }
      id = vocabulary_.find(candidate);
      if (id != kNoId) break;
    }
    if (id == kNoId) return false;
    tokens.add(id, {static_cast<uint32_t>(start), static_cast<uint32_t>(end)}, piece);
    start = end;
  }
  return true;
}

void WordPiece::tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch&,
                         Tokens& tokens) const {
  std::string buffer;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view word = text.substr(pieces[i].begin, pieces[i].size());
    const auto index = static_cast<uint32_t>(i);
    const size_t before = tokens.ids.size();
    if (word.size() <= max_characters_ || count_characters(word) <= max_characters_) {
      if (cut(word, buffer, tokens, index)) continue;
      tokens.ids.resize(before);
      if (tokens.detailed) {
        tokens.ranges.resize(before);
        tokens.pieces.resize(before);
        tokens.surfaces.resize(before);
      }
    }
    tokens.add(unknown_id(vocabulary_, unk_token_), {0, static_cast<uint32_t>(word.size())}, index);
  }
}

WordLevel::WordLevel(Vocabulary vocabulary, std::string unk_token)
    : Model(std::move(vocabulary)), unk_token_(std::move(unk_token)) {}

void WordLevel::tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch&,
                         Tokens& tokens) const {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view word = text.substr(pieces[i].begin, pieces[i].size());
    uint32_t id = vocabulary_.find(word);
    if (id == kNoId) id = unknown_id(vocabulary_, unk_token_);
    tokens.add(id, {0, static_cast<uint32_t>(word.size())}, static_cast<uint32_t>(i));
  }
}

}  // namespace lathe::tokenizer
