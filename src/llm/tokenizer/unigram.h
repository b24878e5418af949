// SPDX-License-Identifier: MIT
// Unigram: the most probable segmentation of a piece, identical to `tokenizers`.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "llm/tokenizer/byte_trie.h"
#include "llm/tokenizer/model.h"

namespace lathe::tokenizer {

class Unigram : public Model {
 public:
  // Tokens with their scores; the index is the id.
  Unigram(std::vector<std::pair<std::string, double>> pieces, std::optional<uint32_t> unk_id,
          bool byte_fallback);

  std::unique_ptr<ModelScratch> make_scratch() const override;
  void tokenize(std::string_view text, std::span<const Range> pieces, ModelScratch& scratch,
                Tokens& tokens) const override;
  size_t size() const override { return pieces_.size(); }
  bool has(uint32_t id) const override { return id < pieces_.size(); }
  void read_token(uint32_t id, std::string& text) const override {
    text = id < pieces_.size() ? std::string_view(pieces_[id].first) : std::string_view();
  }

 private:
  class Scratch;
  void piece(std::string_view text, Scratch& scratch, Tokens& tokens, uint32_t index) const;
  void find_best(std::string_view text, Scratch& scratch) const;
  void emit(std::string_view text, Range range, Tokens& tokens, uint32_t index) const;

  std::vector<std::pair<std::string, double>> pieces_;
  std::vector<double> scores_;
  ByteTrie trie_;
  std::optional<uint32_t> unk_id_;
  double unk_score_ = 0;
  bool byte_fallback_;
  std::vector<uint32_t> bytes_;  // id of each <0xNN>
};

}  // namespace lathe::tokenizer
