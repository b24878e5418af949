// SPDX-License-Identifier: MIT
// Models convert the pieces of a text to tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/tokenizer/aligned_text.h"
#include "llm/tokenizer/vocabulary.h"

namespace lathe::tokenizer {

// The tokens of the pieces of one text. Lists other than ids are filled if `detailed`.
struct Tokens {
  bool detailed = false;
  std::vector<uint32_t> ids;
  std::vector<Range> ranges;      // bytes, relative to the piece
  std::vector<uint32_t> pieces;   // index of the piece
  std::vector<uint8_t> surfaces;  // 1: the token's text is its range, not its vocabulary entry

  void clear() {
    ids.clear();
    ranges.clear();
    pieces.clear();
    surfaces.clear();
  }
  void add(uint32_t id, Range range, uint32_t piece, bool surface = false) {
    ids.push_back(id);
    if (!detailed) return;
    ranges.push_back(range);
    pieces.push_back(piece);
    surfaces.push_back(surface ? 1 : 0);
  }
};

// Per-thread state of tokenisation: buffers and a cache of words.
class ModelScratch {
 public:
  virtual ~ModelScratch() = default;
  virtual void clear_word_cache() {}
};

// Immutable and thread-safe; each thread uses its own scratch.
class Model {
 public:
  virtual ~Model() = default;
  virtual std::unique_ptr<ModelScratch> make_scratch() const {
    return std::make_unique<ModelScratch>();
  }
  // Appends the tokens of `pieces` of `text` to `tokens`.
  virtual void tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                        Tokens& tokens) const = 0;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  virtual size_t size() const { return vocabulary_.size(); }
  virtual bool has(uint32_t id) const { return vocabulary_.has(id); }
  // The token's text in tokenizer.json; "" for an unknown id.
  std::string token(uint32_t id) const {
    std::string text;
    read_token(id, text);
    return text;
  }
  // Assigns the token's text to `text`.
  virtual void read_token(uint32_t id, std::string& text) const { vocabulary_.read(id, text); }

 protected:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {
    vocabulary_.finish();
  }
  Vocabulary vocabulary_;
};

}  // namespace lathe::tokenizer
