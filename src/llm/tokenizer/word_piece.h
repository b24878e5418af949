// SPDX-License-Identifier: MIT
// WordPiece (longest match first) and WordLevel (whole words).
#pragma once

#include <string>

#include "llm/tokenizer/byte_trie.h"
#include "llm/tokenizer/model.h"

namespace lathe::tokenizer {

class WordPiece : public Model {
 public:
  WordPiece(Vocabulary vocabulary, std::string unk_token,
            const std::string& continuing_subword_prefix, size_t max_input_chars_per_word);
  void tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                Tokens& tokens) const override;

 private:
  bool cut(std::string_view word, Tokens& tokens, uint32_t piece) const;

  std::string unk_token_;
  size_t max_characters_;
  ByteTrie starts_;
  ByteTrie continuations_;  // tokens within a word, without their prefix
};

class WordLevel : public Model {
 public:
  WordLevel(Vocabulary vocabulary, std::string unk_token);
  void tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                Tokens& tokens) const override;

 private:
  std::string unk_token_;
};

}  // namespace lathe::tokenizer
