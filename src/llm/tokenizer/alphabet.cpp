// SPDX-License-Identifier: MIT
#include "llm/tokenizer/alphabet.h"

#include <algorithm>
#include <map>

#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {

std::optional<Alphabet> Alphabet::make(const std::vector<unicode::CodeSet>& sets) {
  if (sets.size() > 256) return std::nullopt;
  struct Edge {
    char32_t at;
    size_t set;
  };
  std::vector<Edge> edges;
  for (size_t i = 0; i < sets.size(); ++i) {
    for (const auto [first, last] : sets[i]) {
      edges.push_back({first, i});
      edges.push_back({last + 1, i});
    }
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.at < b.at; });
  std::map<std::vector<bool>, uint8_t> known;  // symbols by membership in the sets
  std::vector<std::vector<uint8_t>> symbols(sets.size());
  std::vector<unicode::TwoStage<uint8_t>::Run> runs;
  std::vector<bool> inside(sets.size());
  char32_t begin = 0;
  for (size_t i = 0; begin <= unicode::kLast;) {
    for (; i < edges.size() && edges[i].at == begin; ++i) inside[edges[i].set].flip();
    const char32_t end = i < edges.size() ? edges[i].at : unicode::kLast + 1;
    if (!known.contains(inside)) {
      if (known.size() == 256) return std::nullopt;
      const auto symbol = static_cast<uint8_t>(known.size());
      known.emplace(inside, symbol);
      for (size_t set = 0; set < sets.size(); ++set) {
        if (inside[set]) symbols[set].push_back(symbol);
      }
    }
    runs.push_back({begin, known[inside]});
    begin = end;
  }
  return Alphabet(runs, std::move(symbols));
}

Alphabet::Alphabet(const std::vector<unicode::TwoStage<uint8_t>::Run>& runs,
                   std::vector<std::vector<uint8_t>> symbols)
    : symbol_of_(runs), symbols_(std::move(symbols)) {
  for (char32_t c = 0; c < ascii_.size(); ++c) ascii_[c] = symbol_of_[c];
}

void Alphabet::translate(std::string_view text, std::string& symbols) const {
  const size_t before = symbols.size();
  symbols.resize(before + text.size());
  char* out = symbols.data() + before;
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) {
      *out++ = static_cast<char>(ascii_[byte]);
      ++at;
    } else {
      *out++ = static_cast<char>(symbol_of_[unicode::next(text, at)]);
    }
  }
  symbols.resize(static_cast<size_t>(out - symbols.data()));
}

}  // namespace lathe::tokenizer
