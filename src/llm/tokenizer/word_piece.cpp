// SPDX-License-Identifier: MIT
#include "llm/tokenizer/word_piece.h"

#include <algorithm>

#include "base/error.h"

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
        "model.unk_token '{}' is not in model.vocab, but the text has a word without a token",
        escape(unk_token));
  return id;
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, std::string unk_token,
                     const std::string& continuing_subword_prefix, size_t max_input_chars_per_word)
    : Model(std::move(vocabulary)),
      unk_token_(std::move(unk_token)),
      max_characters_(max_input_chars_per_word) {
  std::vector<std::pair<std::string_view, uint32_t>> starts;
  std::vector<std::pair<std::string_view, uint32_t>> continuations;
  vocabulary_.for_each([&](std::string_view token, uint32_t id) {
    starts.emplace_back(token, id);
    if (!token.starts_with(continuing_subword_prefix)) return;
    continuations.emplace_back(token.substr(continuing_subword_prefix.size()), id);
  });
  starts_ = ByteTrie(std::move(starts));
  continuations_ = ByteTrie(std::move(continuations));
}

bool WordPiece::cut(std::string_view word, Tokens& tokens, uint32_t piece) const {
  const KeyFinder starts(starts_, word);
  const KeyFinder continuations(continuations_, word);
  for (size_t start = 0; start < word.size();) {
    const auto [length, id] = (start == 0 ? starts : continuations).longest(start);
    if (length == 0) return false;
    const size_t end = start + length;
    tokens.add(id, {static_cast<uint32_t>(start), static_cast<uint32_t>(end)}, piece);
    start = end;
  }
  return true;
}

void WordPiece::tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch&,
                         Tokens& tokens) const {
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::string_view word = text.substr(pieces[i].begin, pieces[i].size());
    const auto index = static_cast<uint32_t>(i);
    const size_t before = tokens.ids.size();
    if (word.size() <= max_characters_ || count_characters(word) <= max_characters_) {
      if (cut(word, tokens, index)) continue;
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
