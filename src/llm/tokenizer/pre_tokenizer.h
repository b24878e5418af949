// SPDX-License-Identifier: MIT
// Pre-tokenizers split a text into pieces, the model's input.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// A piece is a range of an AlignedText. Pieces are not empty, ascending and disjoint; bytes between
// them are dropped.
using Pieces = std::vector<Range>;

// Immutable except for leave_bytes(); thread-safe.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  // Splits each of `pieces` of `text`. May edit the text (bytes become characters, spaces become
  // ▁); the pieces are then ranges of the new text.
  virtual void split(AlignedText& text, Pieces& pieces) const = 0;

  // True if split() reads the map to the original, so that texts keep it without `detailed`.
  virtual bool needs_map() const { return false; }

  // If the last step is ByteLevel, drops it and returns true, so that pieces are bytes. For models
  // with a vocabulary in byte form. Offsets do not change.
  virtual bool leave_bytes() { return false; }
};

// Reads the "pre_tokenizer" element of tokenizer.json; nullptr for null. InvalidModel names the
// wrong element.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const nlohmann::json& element,
                                                 std::string_view where = "pre_tokenizer");

// Splits the whole text: starts with one piece, or none for an empty text, then calls split().
void pre_tokenize(const PreTokenizer* pre_tokenizer, AlignedText& text, Pieces& pieces);

// The character of a byte in the byte-level alphabet (UTF-8, one or two bytes).
std::string_view byte_level_character(uint8_t byte);
// The byte of a character of the byte-level alphabet, or -1.
int byte_level_byte(char32_t character);

}  // namespace lathe::tokenizer
