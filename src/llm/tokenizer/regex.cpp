// SPDX-License-Identifier: MIT
#include "llm/tokenizer/regex.h"

#include <pcre2.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "llm/tokenizer/alphabet.h"
#include "llm/tokenizer/fast_patterns.h"
#include "llm/tokenizer/regex_parser.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

constexpr uint32_t kMatchLimit = 1'000'000;  // steps from one offset of the text
constexpr uint32_t kHeapLimitKib = 32 * 1024;
constexpr size_t kJitStack = 4 << 20;
constexpr size_t kWindow = 512;                       // offsets tried between checks of the clock
constexpr std::chrono::milliseconds kTimeLimit{900};  // plus a time proportional to the text

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

// Per-thread buffers of matching.
struct Scratch {
  Owned<pcre2_match_context> context{pcre2_match_context_create(nullptr)};
  Owned<pcre2_jit_stack> stack{pcre2_jit_stack_create(32 << 10, kJitStack, nullptr)};
  Owned<pcre2_match_data> data{pcre2_match_data_create(1, nullptr)};
  std::string symbols;

  Scratch() {
    check(context && data, ErrorKind::out_of_memory, "no memory for matching ({} bytes)",
          kJitStack);
    pcre2_set_match_limit(context.get(), kMatchLimit);
    pcre2_set_heap_limit(context.get(), kHeapLimitKib);
    if (stack) pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
  static Scratch& of_thread() {
    thread_local Scratch scratch;
    return scratch;
  }
};

std::string message_of(int error) {
  PCRE2_UCHAR text[256];
  if (pcre2_get_error_message(error, text, sizeof text) < 0) return fmt::format("error {}", error);
  return reinterpret_cast<const char*>(text);
}

// Formats a set as a class of symbols.
std::string print_symbols(const std::vector<uint8_t>& symbols) {
  if (symbols.empty()) return "(?!)";
  if (symbols.size() == 1) return fmt::format("\\x{:02x}", symbols[0]);
  std::string text = "[";
  for (size_t i = 0; i < symbols.size();) {
    size_t j = i;
    while (j + 1 < symbols.size() && symbols[j + 1] == symbols[j] + 1) ++j;
    text += fmt::format("\\x{:02x}-\\x{:02x}", symbols[i], symbols[j]);
    i = j + 1;
  }
  return text + "]";
}

// Formats a set as a class of characters.
std::string print_set(const unicode::CodeSet& set) {
  if (set.empty()) return "(?!)";
  std::string text = "[";
  for (const auto [first, last] : set) {
    text += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(first),
                        static_cast<uint32_t>(last));
  }
  return text + "]";
}

}  // namespace

struct Regex::Impl {
  std::string pattern;
  FastPattern fast = nullptr;
  std::optional<Alphabet> alphabet;  // without it the text is matched as UTF-8
  Owned<pcre2_code> code;

  explicit Impl(std::string_view text) : pattern(text), fast(find_fast_pattern(text)) {
    if (fast == nullptr) compile();
  }
  void compile();
  // Calls found(range) for each match from `from` on until it returns false.
  template <class F>
  void search(std::string_view text, size_t from, F&& found) const;
  // The next match in the subject, in its units.
  std::optional<Range> next(std::string_view subject, size_t from, Scratch& scratch,
                            std::chrono::steady_clock::time_point& deadline) const;
};

void Regex::Impl::compile() {
  const ParsedRegex parsed = parse_regex(pattern);
  alphabet = Alphabet::make(parsed.sets);
  std::string text;
  for (const auto& [before, set] : parsed.parts) {
    text += before;
    if (set == ParsedRegex::kNoSet) continue;
    text += alphabet ? print_symbols(alphabet->symbols(set)) : print_set(parsed.sets[set]);
    check(text.size() < (4u << 20), ErrorKind::unsupported, "regular expression '{}' is too large",
          escape(pattern));
  }
  const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
  int error = 0;
  size_t offset = 0;
  const uint32_t options = PCRE2_DOLLAR_ENDONLY | PCRE2_USE_OFFSET_LIMIT |
                           (alphabet ? 0 : PCRE2_UTF | PCRE2_NO_UTF_CHECK);
  code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &error,
                           &offset, context.get()));
  check(code != nullptr, ErrorKind::unsupported, "regular expression '{}' cannot be compiled: {}",
        escape(pattern), message_of(error));
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // without JIT matching is slower
}

std::optional<Range> Regex::Impl::next(std::string_view subject, size_t from, Scratch& scratch,
                                       std::chrono::steady_clock::time_point& deadline) const {
  const auto* const units = reinterpret_cast<PCRE2_SPTR>(subject.data());
  while (true) {
    const size_t limit = std::min(subject.size(), from + kWindow);
    pcre2_set_offset_limit(scratch.context.get(), limit);
    int result = pcre2_match(code.get(), units, subject.size(), from, PCRE2_NO_UTF_CHECK,
                             scratch.data.get(), scratch.context.get());
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {
      result =
          pcre2_match(code.get(), units, subject.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                      scratch.data.get(), scratch.context.get());
    }
    if (result >= 0) {
      const size_t* const found = pcre2_get_ovector_pointer(scratch.data.get());
      return Range{static_cast<uint32_t>(found[0]), static_cast<uint32_t>(found[1])};
    }
    check(
        result == PCRE2_ERROR_NOMATCH, ErrorKind::invalid_argument,
        "matching the regular expression '{}' in a text of {} bytes exceeds the limit of steps or "
        "memory",
        escape(pattern), subject.size());
    if (limit == subject.size()) return std::nullopt;
    from = limit + 1;
    if (alphabet == std::nullopt) {
      while (from < subject.size() && (static_cast<uint8_t>(subject[from]) & 0xC0) == 0x80) ++from;
    }
    check(std::chrono::steady_clock::now() < deadline, ErrorKind::invalid_argument,
          "matching the regular expression '{}' in a text of {} bytes exceeds the time limit",
          escape(pattern), subject.size());
  }
}

template <class F>
void Regex::Impl::search(std::string_view text, size_t from, F&& found) const {
  Scratch& scratch = Scratch::of_thread();
  auto deadline =
      std::chrono::steady_clock::now() + kTimeLimit + std::chrono::nanoseconds(200 * text.size());
  std::string_view subject = text;
  if (alphabet) {
    scratch.symbols.clear();
    alphabet->translate(text, scratch.symbols);
    subject = scratch.symbols;
  }
  // Maps units of the subject to offsets of the text; both ascend.
  const bool same = subject.size() == text.size();
  size_t unit = 0, byte = 0;
  const auto byte_of = [&](size_t target) {
    if (same) return target;
    if (target < unit) unit = byte = 0;
    for (; unit < target; ++unit) byte += unicode::length(text[byte]);
    return byte;
  };
  size_t at = from;
  if (!same) {
    for (at = 0; byte < from; ++at, ++unit) byte += unicode::length(text[byte]);
  }
  const auto step = [&](size_t position) {
    if (alphabet || position >= subject.size()) return position + 1;
    return position + unicode::length(subject[position]);
  };
  std::optional<size_t> last_end;
  while (at <= subject.size()) {
    const std::optional<Range> match = next(subject, at, scratch, deadline);
    if (!match) return;
    if (match->begin == match->end && last_end == match->end) {  // an empty match after another
      at = step(at);
      continue;
    }
    at = match->end;
    last_end = match->end;
    const auto begin = static_cast<uint32_t>(byte_of(match->begin));
    if (!found(Range{begin, static_cast<uint32_t>(byte_of(match->end))})) return;
  }
}

Regex::Regex(std::string_view pattern) : impl_(std::make_unique<Impl>(pattern)) {}
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;

const std::string& Regex::pattern() const { return impl_->pattern; }

std::optional<Range> Regex::find(std::string_view text, size_t from) const {
  std::optional<Range> result;
  if (impl_->fast != nullptr) {  // these ignore the text before `from`
    std::vector<Range> matches;
    impl_->fast(text.substr(from), matches);
    if (!matches.empty()) {
      const auto shift = static_cast<uint32_t>(from);
      result = {matches[0].begin + shift, matches[0].end + shift};
    }
    return result;
  }
  impl_->search(text, from, [&](Range match) {
    result = match;
    return false;
  });
  return result;
}

void Regex::find_all(std::string_view text, std::vector<Range>& matches) const {
  if (text.empty()) return;
  if (impl_->fast != nullptr) return impl_->fast(text, matches);
  impl_->search(text, 0, [&](Range match) {
    matches.push_back(match);
    return true;
  });
}

std::string Regex::replace_all(std::string_view text, std::string_view content) const {
  std::vector<Range> matches;
  find_all(text, matches);
  return replace_ranges(text, matches, content);
}

std::string replace_ranges(std::string_view text, const std::vector<Range>& ranges,
                           std::string_view content) {
  std::string result;
  size_t at = 0;
  for (const Range range : ranges) {
    result += text.substr(at, range.begin - at);
    result += content;
    at = range.end;
  }
  return result += text.substr(at);
}

Pattern::Pattern(const nlohmann::json& element, std::string_view where) {
  const bool one = element.is_object() && element.size() == 1;
  if (one && element.contains("String") && element["String"].is_string()) {
    literal_ = element["String"].get<std::string>();
    if (literal_.empty()) regex_.emplace("");
  } else if (one && element.contains("Regex") && element["Regex"].is_string()) {
    regex_.emplace(element["Regex"].get_ref<const std::string&>());
  } else {
    fail(ErrorKind::invalid_model,
         "{}: expected {{\"String\": text}} or {{\"Regex\": text}}, found {} with {} elements",
         where, element.type_name(), element.size());
  }
}

Pattern Pattern::literal(std::string_view text) {
  return Pattern(nlohmann::json{{"String", text}}, "pattern");
}

void Pattern::find_all(std::string_view text, std::vector<Range>& matches) const {
  if (regex_) return regex_->find_all(text, matches);
  const size_t size = literal_.size();
  for (size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + size)) {
    matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + size)});
  }
}

std::string Pattern::replace_all(std::string_view text, std::string_view content) const {
  std::vector<Range> matches;
  find_all(text, matches);
  return replace_ranges(text, matches, content);
}

}  // namespace lathe::tokenizer
