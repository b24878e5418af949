// SPDX-License-Identifier: MIT
// SentencePiece models as SentencePiece itself runs them: its normaliser, unigram and BPE.
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

// Normaliser, model and decoder; added tokens and post-processor are left to the caller.
// InvalidModel for a specification that contradicts itself.
Parts make_sentence_piece(SentencePieceSpec spec);

// Maps stretches of a text by a double array trie, as Darts lays it out.
class CharacterMap {
 public:
  CharacterMap() = default;
  // The bytes of precompiled_charsmap.
  explicit CharacterMap(std::string_view blob);
  // What the longest known prefix of `text` becomes, and its length; length 0 if none is known.
  std::pair<std::string_view, size_t> longest(std::string_view text) const;

 private:
  std::vector<uint32_t> units_;
  std::string texts_;  // each ends with a zero byte
};

}  // namespace lathe::tokenizer
