// SPDX-License-Identifier: MIT
// SentencePiece's normaliser, unigram and BPE models.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/bpe_merge.h"
#include "llm/tokenizer/byte_trie.h"
#include "llm/tokenizer/tokenizer.h"

namespace lathe::tokenizer {

struct SentencePiece {
  enum class Type : uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6
  };
  std::string text;
  float score = 0;
  Type type = Type::normal;
};

struct SentencePieceSpec {
  std::vector<SentencePiece> pieces;
  bool bpe = false;  // else unigram
  bool byte_fallback = false;
  std::string unk_surface = " \u2047 ";
  // The normaliser.
  std::string charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
  bool whitespace_as_suffix = false;
};

// Makes normaliser, model and decoder, without added tokens and post-processor. InvalidModel for an
// inconsistent specification.
Parts make_sentence_piece(SentencePieceSpec spec);

// Maps strings by a double-array trie in the layout of Darts.
class CharacterMap {
 public:
  CharacterMap() = default;
  // The bytes of precompiled_charsmap.
  explicit CharacterMap(std::string_view blob);
  // The replacement and length of the longest known prefix of `text`; length 0 without one.
  std::pair<std::string_view, size_t> longest(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string texts_;  // zero-terminated
};

}  // namespace lathe::tokenizer
