// SPDX-License-Identifier: MIT
// Pre-tokenizers: how tokenizer.json cuts a text into the pieces that the model sees.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// A piece is a range of an AlignedText. Pieces never are empty, come in order and are disjoint;
// bytes between them belong to none.
using Pieces = std::vector<Range>;

// Immutable after construction (but for leave_bytes); may be used by many threads.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;

  // Splits each of `pieces` of `text` further. The text may be rewritten on the way (bytes become
  // characters, spaces become ▁); the pieces are then ranges of the new text.
  virtual void split(AlignedText& text, Pieces& pieces) const = 0;

  // Whether split() looks at where pieces came from, so that texts must keep their map even if no
  // offsets are asked for.
  virtual bool needs_map() const { return false; }

  // If the last thing done is to write each byte as a character of its own (ByteLevel): from now on
  // leave this out, so that pieces are the bytes themselves, and return true. For models that hold
  // their vocabulary as bytes too. Offsets do not change by it.
  virtual bool leave_bytes() { return false; }
};

// From the "pre_tokenizer" element of tokenizer.json; nullptr for null. Fails with InvalidModel
// naming the element for one that is malformed.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(const nlohmann::json& element,
                                                 std::string_view where = "pre_tokenizer");

// Starts from the whole text: pieces = {all of it}, or none if it is empty; then split().
void pre_tokenize(const PreTokenizer* pre_tokenizer, AlignedText& text, Pieces& pieces);

// The character that stands for a byte in byte-level vocabularies (UTF-8, one or two bytes).
std::string_view byte_level_character(uint8_t byte);
// The byte that a character stands for, or -1.
int byte_level_byte(char32_t character);

}  // namespace lathe::tokenizer
