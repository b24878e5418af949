// SPDX-License-Identifier: MIT
#include "ops/support/regex.h"

#include <pcre2.h>

#include <vector>

#include "base/error.h"
#include "ops/support/re2_pattern.h"

namespace lathe {
namespace {

// Ints for the states of a match, which takes them all at once and never goes back.
constexpr size_t kWorkspace = 4096;
constexpr size_t kMostWorkspace = size_t{1} << 20;

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  std::vector<int> workspace;

  ~Code() {
    pcre2_code_free(code);
    pcre2_match_data_free(data);
  }
};

Regex::Regex(const std::string& pattern, Mode mode)
    : code_(std::make_unique<Code>()), pattern_(pattern) {
  const Re2Pattern own = re2_pattern(pattern);
  problem_ = own.problem;
  if (!problem_.empty()) return;
  int error = 0;
  size_t place = 0;
  const uint32_t whole = mode == Mode::full ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0;
  code_->code = pcre2_compile(bytes_of(own.text), own.text.size(),
                              PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | whole,
                              &error, &place, nullptr);
  if (code_->code == nullptr) {
    char text[256] = {};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
    problem_ = text;
    return;
  }
  code_->data = pcre2_match_data_create_from_pattern(code_->code, nullptr);
  code_->workspace.resize(kWorkspace);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view text, size_t from) {
  Code& c = *code_;
  // A later search in the same text need not check it again.
  const uint32_t checked = from > 0 ? PCRE2_NO_UTF_CHECK : 0;
  int found = 0;
  do {
    if (found == PCRE2_ERROR_DFA_WSSIZE) c.workspace.resize(2 * c.workspace.size());
    found = pcre2_dfa_match(c.code, bytes_of(text), text.size(), from, checked, c.data, nullptr,
                            c.workspace.data(), c.workspace.size());
  } while (found == PCRE2_ERROR_DFA_WSSIZE && c.workspace.size() < kMostWorkspace);
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  check(found >= 0, ErrorKind::invalid_argument,
        "pattern '{}' does not run on a string of {} bytes (PCRE2 error {})", escape(pattern_),
        text.size(), found);
  const size_t* bounds = pcre2_get_ovector_pointer(c.data);
  return Match{bounds[0], bounds[1]};
}

}  // namespace lathe
