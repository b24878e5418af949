// SPDX-License-Identifier: MIT
// Regular expressions of tokenizer files: Oniguruma's syntax, compiled by PCRE2.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// A compiled pattern. Classes (\p{L}, \s, \w, [[:alpha:]], …) and case folding use Lathe's tables,
// so that matches equal those of `tokenizers`. Common patterns use hand-written matchers. Immutable
// and thread-safe.
class Regex {
 public:
  // InvalidModel for a malformed pattern, Unsupported for one that PCRE2 does not have.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  const std::string& pattern() const;
  // The first match that begins at or after `from`. InvalidArgument if matching exceeds the limits
  // of steps, memory or time.
  std::optional<Range> find(std::string_view text, size_t from = 0) const;
  // Appends all matches from left to right, without an empty match directly after another. An empty
  // text has none.
  void find_all(std::string_view text, std::vector<Range>& matches) const;
  // Replaces every match by `content`, which is literal.
  std::string replace_all(std::string_view text, std::string_view content) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Replaces each of `ranges` (ascending, disjoint) in `text` by `content`.
std::string replace_ranges(std::string_view text, const std::vector<Range>& ranges,
                           std::string_view content);

// The pattern of Replace and Split: {"String": text} or {"Regex": pattern}.
class Pattern {
 public:
  // `where` names the element in errors.
  Pattern(const nlohmann::json& element, std::string_view where);
  static Pattern literal(std::string_view text);

  void find_all(std::string_view text, std::vector<Range>& matches) const;
  std::string replace_all(std::string_view text, std::string_view content) const;
  // The only text that the pattern matches; "" for a regular expression.
  std::string_view plain() const { return literal_; }

 private:
  Pattern() = default;
  std::string literal_;  // used without a regex
  std::optional<Regex> regex_;
};

}  // namespace lathe::tokenizer
