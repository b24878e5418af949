// SPDX-License-Identifier: MIT
// Regular expressions in RE2's syntax over strings of UTF-8; matching never goes back in them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace lathe {

class Regex {
 public:
  enum class Mode : uint8_t {
    full,     // the whole string
    longest,  // the leftmost, longest match
  };

  // A pattern that is not valid has a problem and must not be matched with.
  Regex(const std::string& pattern, Mode mode);
  ~Regex();
  Regex(Regex&&) noexcept;
  const std::string& problem() const { return problem_; }

  struct Match {
    size_t begin, end;  // bytes
  };
  // The match in text[from, ...). InvalidArgument if the text is not UTF-8, or for too many states.
  std::optional<Match> find(std::string_view text, size_t from = 0);

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string pattern_;
  std::string problem_;
};

}  // namespace lathe
