// SPDX-License-Identifier: MIT
// Groups characters that a pattern does not distinguish.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/unicode/tables.h"

namespace lathe::tokenizer {

// Characters in the same subset of the given sets share a symbol of one byte. In a pattern over
// symbols each class is a bit map, so matching needs no decoding and no search in ranges.
class Alphabet {
 public:
  // nullopt if more than 256 symbols are needed.
  static std::optional<Alphabet> make(const std::vector<unicode::CodeSet>& sets);

  // The symbols of the characters of set `index`, ascending.
  const std::vector<uint8_t>& symbols(size_t index) const { return symbols_[index]; }

  // Appends the symbol of each character of `text`.
  void translate(std::string_view text, std::string& symbols) const;

 private:
  Alphabet(const std::vector<unicode::TwoStage<uint8_t>::Run>& runs,
           std::vector<std::vector<uint8_t>> symbols);

  std::array<uint8_t, 128> ascii_;
  unicode::TwoStage<uint8_t> symbol_of_;
  std::vector<std::vector<uint8_t>> symbols_;
};

}  // namespace lathe::tokenizer
