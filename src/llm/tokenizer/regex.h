// SPDX-License-Identifier: MIT
// Regular expressions of tokenizer files: Oniguruma's syntax, matched by PCRE2.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/tokenizer/aligned_text.h"

namespace lathe::tokenizer {

// A compiled pattern. Classes (\p{L}, \s, \w, [[:alpha:]], …) and case folding come from our own
// tables, so that a pattern finds what `tokenizers` finds. Immutable; may be used by many threads.
// Patterns that everybody uses are matched by hand-written code with the same result.
class Regex {
 public:
  // Fails with InvalidModel for a pattern that is malformed, Unsupported for one beyond PCRE2.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;

  const std::string& pattern() const;
  // The first match that begins at or after `from`. Fails with InvalidArgument if matching takes
  // more steps or memory than the limits allow.
  std::optional<Range> find(std::string_view text, size_t from = 0) const;
  // Appends all matches from left to right, without an empty one right behind another; none in an
  // empty text.
  void find_all(std::string_view text, std::vector<Range>& matches) const;
  // Every match replaced by `content`, taken literally.
  std::string replace_all(std::string_view text, std::string_view content) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// `text` with `content` in the place of each of `ranges` (ascending, disjoint).
std::string replace_ranges(std::string_view text, const std::vector<Range>& ranges,
                           std::string_view content);

// What Replace and Split look for: {"String": text} or {"Regex": pattern}.
class Pattern {
 public:
  // `where` names the element in errors.
  Pattern(const nlohmann::json& element, std::string_view where);
  static Pattern literal(std::string_view text);

  void find_all(std::string_view text, std::vector<Range>& matches) const;
  std::string replace_all(std::string_view text, std::string_view content) const;
  // The text that it matches and nothing else; empty if there is no such.
  std::string_view plain() const { return literal_; }

 private:
  Pattern() = default;
  std::string literal_;  // used where there is no regex
  std::optional<Regex> regex_;
};

}  // namespace lathe::tokenizer
