// SPDX-License-Identifier: MIT
#include "ops/support/regex.h"

#include <pcre2.h>

#include <vector>

#include "base/error.h"

namespace lathe {
namespace {

constexpr uint32_t kMatchLimit = 1'000'000;  // steps of backtracking
constexpr size_t kWorkspace = 4096;          // ints, for the states of a longest match

PCRE2_SPTR bytes_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  std::vector<int> workspace;

  ~Code() {
    pcre2_code_free(code);
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

Regex::Regex(const std::string& pattern, Mode mode)
    : code_(std::make_unique<Code>()), pattern_(pattern), mode_(mode) {
  int error = 0;
  size_t place = 0;
  const uint32_t whole = mode == Mode::full ? PCRE2_ANCHORED | PCRE2_ENDANCHORED : 0;
  code_->code = pcre2_compile(bytes_of(pattern), pattern.size(),
                              PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | whole, &error, &place, nullptr);
  if (code_->code == nullptr) {
    char text[256] = {};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
    problem_ = fmt::format("{} at offset {}", text, place);
    return;
  }
  code_->data = pcre2_match_data_create_from_pattern(code_->code, nullptr);
  code_->context = pcre2_match_context_create(nullptr);
  pcre2_set_match_limit(code_->context, kMatchLimit);
  if (mode == Mode::longest) code_->workspace.resize(kWorkspace);
}

Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view text, size_t from) {
  Code& c = *code_;
  // A later search in the same text need not check it again.
  const uint32_t checked = from > 0 ? PCRE2_NO_UTF_CHECK : 0;
  const int found =
      mode_ == Mode::full
          ? pcre2_match(c.code, bytes_of(text), text.size(), from, checked, c.data, c.context)
          : pcre2_dfa_match(c.code, bytes_of(text), text.size(), from, checked, c.data, c.context,
                            c.workspace.data(), c.workspace.size());
  if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
  check(found >= 0, ErrorKind::invalid_argument,
        "pattern '{}' does not run on a string of {} bytes (PCRE2 error {})", escape(pattern_),
        text.size(), found);
  const size_t* bounds = pcre2_get_ovector_pointer(c.data);
  return Match{bounds[0], bounds[1]};
}

}  // namespace lathe
