// SPDX-License-Identifier: MIT
// The characters of a pattern, told apart only as far as the pattern tells them apart.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/unicode/tables.h"

namespace lathe::tokenizer {

// Characters that belong to the same of the given sets share a symbol, a byte. A pattern over such
// sets becomes one over bytes, in which each class is a bit map and each character one byte:
// matching needs no decoding and no search in lists of ranges.
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
