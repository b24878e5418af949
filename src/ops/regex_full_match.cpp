// SPDX-License-Identifier: MIT
#include <pcre2.h>

#include <memory>

#include "ir/infer.h"
#include "ops/evaluation.h"

namespace lathe {
namespace {

struct FreeRegex {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
template <class T>
using Handle = std::unique_ptr<T, FreeRegex>;

constexpr uint32_t kMatchLimit = 1'000'000;  // steps of backtracking

Handle<pcre2_code> compile(const std::string& pattern, std::string& problem) {
  int error = 0;
  size_t place = 0;
  Handle<pcre2_code> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C,
                    &error, &place, nullptr));
  if (code == nullptr) {
    char text[256] = {};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
    problem = fmt::format("{} at offset {}", text, place);
  }
  return code;
}

void infer_regex_full_match(Infer& c) {
  std::string problem;
  compile(c.text("pattern"), problem);
  c.check(problem.empty(), "pattern '{}' is not a valid regular expression: {}",
          escape(c.text("pattern")), problem);
  c.result(ElementType::boolean, c.dims(0));
}

void eval_regex_full_match(Evaluation& c) {
  std::string problem;
  const Handle<pcre2_code> code = compile(c.text("pattern"), problem);
  const Handle<pcre2_match_data> match(pcre2_match_data_create_from_pattern(code.get(), nullptr));
  const Handle<pcre2_match_context> context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  const TensorView& x = c.in(0);
  const TensorView& out = c.out(0);
  for_each_index(x.extents(), [&](std::span<const int64_t> at) {
    const std::string& text = x.as<std::string>()[offset_of(x, at)];
    const int found = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), 0, 0, match.get(), context.get());
    c.check(found >= 0 || found == PCRE2_ERROR_NOMATCH,
            "pattern '{}' does not run on a string of {} bytes (PCRE2 error {})",
            escape(c.text("pattern")), text.size(), found);
    out.as<uint8_t>()[offset_of(out, at)] = found >= 0 ? 1 : 0;
  });
}

}  // namespace

static const Register regex_full_match{{
    .name = "regex_full_match",
    .doc = "Whether each whole string matches the regular expression.",
    .operands = {{"x", kString}},
    .attributes = {{"pattern", AttributeKind::text}},
    .infer = infer_regex_full_match,
    .eval = eval_regex_full_match,
}};

}  // namespace lathe
