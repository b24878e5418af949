// SPDX-License-Identifier: MIT
// WordPiece (the longest token first) and WordLevel (whole words only).
#pragma once

#include <string>

#include "llm/tokenizer/model.h"

namespace lathe::tokenizer {

class WordPiece : public Model {
 public:
  WordPiece(Vocabulary vocabulary, std::string unk_token, std::string continuing_subword_prefix,
            size_t max_input_chars_per_word);
  void tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                Tokens& tokens) const override;

 private:
  bool cut(std::string_view word, std::string& buffer, Tokens& tokens, uint32_t piece) const;

  std::string unk_token_;
  std::string prefix_;
  size_t max_characters_;
  size_t longest_ = 0;  // bytes of the longest token
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
