// SPDX-License-Identifier: MIT
#include <algorithm>

#include "ops/evaluation.h"
#include "ops/support/regex.h"
#include "ops/support/requirements.h"
#include "ops/support/texts.h"

namespace lathe {
namespace {

using Tokens = std::vector<std::string_view>;

// Bytes of the character at text[at], which is UTF-8.
size_t character(std::string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) ++end;
  return end - at;
}

int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
}

// "" and the token "." split into characters.
bool splits_characters(const Texts& separators, const std::string& token) {
  return token.empty() ? separators.size() == 1 && separators[0].empty() : token == ".";
}

void infer_tokenizer(Infer& c) {
  const Texts& separators =
      std::get<Texts>(*find_attribute(c.instruction().attributes(), "separators"));
  const std::string& token = c.text("tokenexp");
  require_rank(c, 0, 1, 2);
  c.check(separators.empty() != token.empty(),
          "tokenexp is '{}' beside {} separators, expected one of them", escape(token),
          separators.size());
  const int64_t least = require_integer(c, "mincharnum", 1);
  c.check(!splits_characters(separators, token) || least == 1,
          "mincharnum is {} for single characters, expected 1", least);
  Texts patterns = separators;
  if (!token.empty()) patterns.push_back(token);
  for (const std::string& pattern : patterns) {
    const Regex regex(pattern, Regex::Mode::longest);
    c.check(regex.problem().empty(), "'{}' is not a valid regular expression: {}", escape(pattern),
            regex.problem());
  }
  infer_text_rows(c, "tokens");
}

struct Tokenizer {
  bool single;  // splits into characters
  bool keep;    // the matches are the tokens, not what is between them
  std::vector<Regex> patterns;
  int64_t least;  // characters of a token

  // Searches one pattern; a match of no characters skips one.
  void scan(Regex& pattern, std::string_view text, Tokens& tokens) const {
    size_t at = 0;
    const auto add = [&](std::string_view token) {
      if (characters(token) >= least) tokens.push_back(token);
    };
    while (at < text.size()) {
      const std::optional<Regex::Match> match = pattern.find(text, at);
      if (!match || match->begin == text.size()) break;
      const size_t size = match->end - match->begin;
      add(keep ? text.substr(match->begin, size) : text.substr(at, match->begin - at));
      at = match->begin + (size > 0 ? size : character(text, match->begin));
    }
    if (!keep && at < text.size()) add(text.substr(at));
  }

  Tokens split(std::string_view text) {
    Tokens tokens;
    if (single) {
      for (size_t at = 0; at < text.size(); at += tokens.back().size()) {
        tokens.push_back(text.substr(at, character(text, at)));
      }
      return tokens;
    }
    tokens.push_back(text);
    for (Regex& pattern : patterns) {
      Tokens parts;
      for (const std::string_view part : tokens) scan(pattern, part, parts);
      tokens = std::move(parts);
    }
    return tokens;
  }
};

void eval_tokenizer(Evaluation& c) {
  const std::string& token = c.text("tokenexp");
  const bool mark = c.boolean("mark");
  Tokenizer tokenizer{
      splits_characters(c.texts("separators"), token), !token.empty(), {}, c.integer("mincharnum")};
  Texts patterns = c.texts("separators");
  if (!token.empty()) patterns.push_back(token);
  for (const std::string& p : patterns) tokenizer.patterns.emplace_back(p, Regex::Mode::longest);
  std::vector<Tokens> rows =
      split_elements(c, [&](std::string_view text) { return tokenizer.split(text); });
  const bool is_empty = std::ranges::all_of(rows, &Tokens::empty);
  for (Tokens& row : rows) {
    if (!mark || is_empty) break;
    row.insert(row.begin(), "\x02");
    row.push_back("\x03");
  }
  store_text_rows(c, rows, c.text("pad_value"));
}

}  // namespace

static const Register tokenizer{{
    .name = "tokenizer",
    .doc = "The tokens of each string: its longest matches of `tokenexp`, or what is between those "
           "of the separators; padded.",
    .operands = {{"x", kString}},
    .attributes = {{"mark", Attribute(false)},
                   {"mincharnum", 1},
                   {"pad_value", ""},
                   {"separators", Attribute(Texts{})},
                   {"tokenexp", ""}},
    .infer = infer_tokenizer,
    .eval = eval_tokenizer,
}};

}  // namespace lathe
