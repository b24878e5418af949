// SPDX-License-Identifier: MIT
#include "llm/tokenizer/regex_parser.h"

#include <map>
#include <optional>

#include "base/error.h"
#include "llm/tokenizer/regex_class.h"
#include "llm/tokenizer/unicode/code_set.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

using unicode::CodeSet;

constexpr size_t kMaxPattern = 1 << 15;
constexpr int kMaxGroupDepth = 100;
constexpr uint32_t kMaxRepeat = 65535;

struct Options {
  bool ignore_case = false;
  bool dot_all = false;   // Ruby's (?m)
  bool extended = false;  // ignores blanks and # comments
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : in_(pattern) {}

  ParsedRegex parse() {
    open();
    alternatives(Options{}, 0);
    if (!in_.at_end()) in_.malformed("unmatched ')'");
    return std::move(result_);
  }

 private:
  // The parts; a prefix may be inserted later.
  size_t open() {
    result_.parts.emplace_back();
    return result_.parts.size() - 1;
  }
  void emit(std::string_view text) {
    if (result_.parts.back().set != ParsedRegex::kNoSet) open();
    result_.parts.back().text += text;
  }
  void emit_set(const CodeSet& set) {
    std::string key(reinterpret_cast<const char*>(set.data()), set.size() * sizeof(set[0]));
    const auto [it, added] = known_.emplace(std::move(key), static_cast<int>(result_.sets.size()));
    if (added) result_.sets.push_back(set);
    if (result_.parts.back().set != ParsedRegex::kNoSet) open();
    result_.parts.back().set = it->second;
  }
  // A character of `set`. If case is ignored, also strings that equal one of them.
  void emit_characters(const CodeSet& set, const Options& options) {
    if (!options.ignore_case) return emit_set(set);
    const CodeSet closed = unicode::close_over_case(set);
    std::vector<const std::u32string*> several;
    for (const auto& [character, folded] : unicode::several_folds()) {
      if (unicode::contains(closed, character)) several.push_back(&folded);
    }
    if (!several.empty()) emit("(?:");
    emit_set(closed);
    for (const std::u32string* const folded : several) {
      emit("|");
      for (const char32_t c : *folded) emit_set(unicode::close_over_case({{c, c}}));
    }
    if (!several.empty()) emit(")");
  }

  // Parses up to the end or to ')', which it does not consume.
  void alternatives(Options options, int depth) {
    if (depth > kMaxGroupDepth)
      in_.unsupported(fmt::format("more than {} nested groups", kMaxGroupDepth));
    size_t opened = 0;  // groups opened by options up to the end of this group
    while (!in_.at_end() && in_.peek() != ')') {
      if (in_.take('|')) {
        emit("|");
        continue;
      }
      if (options.extended && skip_blank()) continue;
      if (in_.looking_at("(?") && change_options(options)) {
        emit("(?:");
        if (++opened > kMaxGroupDepth)
          in_.unsupported("more than 100 changes of options in a group");
        continue;
      }
      if (in_.looking_at("(?#")) {
        skip_comment();
        continue;
      }
      term(options, depth);
    }
    for (; opened > 0; --opened) emit(")");
  }

  bool skip_blank() {
    const char c = in_.peek();
    if (c == ' ' || (c >= '\t' && c <= '\r')) return in_.skip(1), true;
    if (c != '#') return false;
    while (!in_.at_end() && in_.peek() != '\n') in_.skip(1);
    return true;
  }

  void skip_comment() {
    while (!in_.at_end() && in_.peek() != ')') in_.skip(in_.peek() == '\\' ? 2 : 1);
    if (!in_.take(')')) in_.malformed("a comment does not end");
  }

  // "(?imx-imx)" applies up to the end of the group; "(?imx-imx:" is parsed elsewhere.
  bool change_options(Options& options) {
    Options changed = options;
    const size_t start = in_.position();
    in_.skip(2);
    if (!read_options(changed) || !in_.take(')')) {
      in_.go_to(start);
      return false;
    }
    options = changed;
    return true;
  }

  bool read_options(Options& options) {
    bool on = true, any = false;
    for (; !in_.at_end(); any = true) {
      const char c = in_.peek();
      if (c == '-' && on)
        on = false;
      else if (c == 'i')
        options.ignore_case = on;
      else if (c == 'm')
        options.dot_all = on;
      else if (c == 'x')
        options.extended = on;
      else
        break;
      in_.skip(1);
    }
    return any;
  }

  void term(const Options& options, int depth) {
    const size_t start = open();
    atom(options, depth);
    bool wrapped = false;  // the atom and its quantifiers are in a group
    while (true) {
      while (options.extended && !in_.at_end() && skip_blank()) {
      }
      std::string quantifier, rest;
      if (!read_quantifier(quantifier, rest)) break;
      if (wrapped) {
        result_.parts[start].text.insert(0, "(?:");
        emit(")");
      }
      emit(quantifier);
      if (!rest.empty()) {
        result_.parts[start].text.insert(0, "(?:");
        emit(")" + rest);
      }
      wrapped = true;
      if (++quantifiers_ > kMaxPattern / 8) in_.unsupported("more than 4096 quantifiers");
    }
    open();
  }

  // `rest`: a quantifier after the first one.
  bool read_quantifier(std::string& quantifier, std::string& rest) {
    if (in_.at_end()) return false;
    const char c = in_.peek();
    if (c == '*' || c == '+' || c == '?') {
      in_.skip(1);
      quantifier = c;
      if (in_.take('?'))
        quantifier += '?';
      else if (in_.take('+'))
        quantifier += '+';
      return true;
    }
    if (c != '{') return false;
    const size_t start = in_.position();
    in_.skip(1);
    const std::optional<uint32_t> low = in_.decimal();
    std::optional<uint32_t> high = low;
    const bool range = in_.take(',');
    if (range) high = in_.decimal();
    if (!in_.take('}') || (!low && !high)) {
      in_.go_to(start);
      return false;  // a literal brace
    }
    if (low.value_or(0) > kMaxRepeat || high.value_or(0) > kMaxRepeat) {
      in_.unsupported(fmt::format("a repetition above {}", kMaxRepeat));
    }
    if (high && low.value_or(0) > *high) in_.malformed("the bounds of a repetition are reversed");
    quantifier = fmt::format("{{{},", low.value_or(0));
    if (high) quantifier += std::to_string(*high);
    quantifier += '}';
    // A range has only the lazy variant in Ruby's syntax.
    if (in_.take('?'))
      (range ? quantifier : rest) += '?';
    else if (in_.take('+'))
      rest = "+";
    return true;
  }

  void atom(const Options& options, int depth) {
    const char c = in_.peek();
    switch (c) {
      case '(':
        return group(options, depth);
      case '[':
        in_.skip(1);
        return bracket(options);
      case '.':
        in_.skip(1);
        return emit_set(options.dot_all ? all() : unicode::complement({{'\n', '\n'}}));
      case '^':
        in_.skip(1);
        return line_start();
      case '$':
        in_.skip(1);
        return line_end("");
      case '\\':
        in_.skip(1);
        return escape(options);
      case '*':
      case '+':
      case '?':
        in_.malformed("a repetition has no operand");
      default:
        break;
    }
    if (options.ignore_case && !options.extended) {
      if (const std::u32string folded = upcoming_fold(); !folded.empty()) {
        return emit_folded(folded, options);
      }
    }
    emit_literal(in_.character(), options);
  }

  // Reads literal characters that together equal one character if case is ignored (ss: ß). The last
  // must not have a quantifier.
  std::u32string upcoming_fold() {
    const size_t start = in_.position();
    std::u32string run, longest;
    while (run.size() < 3 && !in_.at_end() && !in_.at_any_of("()[]{}.^$\\*+?|")) {
      run += in_.character();
      if (in_.at_any_of("*+?{")) break;
      if (run.size() > 1 && !characters_for(run).empty()) longest = run;
    }
    in_.go_to(start);
    for (size_t i = 0; i < longest.size(); ++i) in_.character();
    return longest;
  }

  // The characters that equal the string `run`.
  static CodeSet characters_for(const std::u32string& run) {
    CodeSet set;
    for (const auto& [character, folded] : unicode::several_folds()) {
      bool equal = folded.size() == run.size();
      for (size_t i = 0; equal && i < run.size(); ++i) {
        equal = run[i] == folded[i] ||
                unicode::contains(unicode::close_over_case({{run[i], run[i]}}), folded[i]);
      }
      if (equal) set.push_back({character, character});
    }
    return unicode::unite(set, {});
  }

  // Appends `run` or a character that equals it.
  void emit_folded(const std::u32string& run, const Options& options) {
    emit("(?:");
    for (const char32_t c : run) emit_literal(c, options);
    emit("|");
    emit_set(characters_for(run));
    emit(")");
  }

  void emit_literal(char32_t c, const Options& options) { emit_characters({{c, c}}, options); }

  static CodeSet all() { return {{0, unicode::kLast}}; }
  void line_start() {
    emit("(?:\\A|(?<=");
    emit_set({{'\n', '\n'}});
    emit(")(?!\\z))");
  }
  void line_end(std::string_view after) {
    emit("(?=");
    emit_set({{'\n', '\n'}});
    emit(after);
    emit("|\\z)");
  }

  void bracket(const Options& options) {
    const CharacterClass cls = read_class(in_, 0);
    if (!cls.negated) return emit_characters(cls.set, options);
    const CodeSet set = options.ignore_case ? unicode::close_over_case(cls.set) : cls.set;
    emit_set(unicode::complement(set));
  }

  void group(Options options, int depth) {
    static constexpr std::string_view kSame[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
    for (const std::string_view kind : kSame) {
      if (in_.looking_at(kind)) {
        in_.skip(kind.size());
        return finish_group(kind, options, depth);
      }
    }
    if (in_.looking_at("(?<") || in_.looking_at("(?'")) {
      const char end = in_.looking_at("(?<") ? '>' : '\'';
      in_.skip(3);
      while (!in_.at_end() && in_.peek() != end) in_.skip(1);
      if (!in_.take(end)) in_.malformed("a name of a group does not end");
      return finish_group("(?:", options, depth);
    }
    if (in_.looking_at("(?")) {
      in_.skip(2);
      if (!read_options(options) || !in_.take(':')) in_.unsupported("a group of this kind");
      return finish_group("(?:", options, depth);
    }
    if (in_.looking_at("(*")) in_.unsupported("a callout");
    in_.skip(1);
    finish_group("(?:", options, depth);
  }

  void finish_group(std::string_view kind, const Options& options, int depth) {
    emit(kind);
    alternatives(options, depth + 1);
    if (!in_.take(')')) in_.malformed("a group does not end");
    emit(")");
  }

  void word_boundary(bool negated) {
    const CodeSet word = unicode::escape_class('w');
    const char* const parts[] = {"(?:(?<=", negated ? ")(?=" : ")(?!", ")|(?<!",
                                 negated ? ")(?!" : ")(?=", "))"};
    for (int i = 0; i < 4; ++i) {
      emit(parts[i]);
      emit_set(word);
    }
    emit(parts[4]);
  }

  void line_break() {
    emit("(?>");
    emit_set({{'\r', '\r'}});
    emit_set({{'\n', '\n'}});
    emit("|");
    emit_set({{'\n', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}});
    emit(")");
  }

  void escape(const Options& options) {
    if (in_.at_end()) in_.malformed("it ends with a backslash");
    switch (in_.peek()) {
      case 'b':
        in_.skip(1);
        return word_boundary(false);
      case 'B':
        in_.skip(1);
        return word_boundary(true);
      case 'A':
        in_.skip(1);
        return emit("\\A");
      case 'z':
        in_.skip(1);
        return emit("\\z");
      case 'Z':
        in_.skip(1);
        return line_end("\\z");
      case 'G':
        in_.skip(1);
        return emit("\\G");
      case 'K':
        in_.skip(1);
        return emit("\\K");
      case 'R':
        in_.skip(1);
        return line_break();
      case 'N':
        in_.skip(1);
        return emit_set(unicode::complement({{'\n', '\n'}}));
      case 'O':
        in_.skip(1);
        return emit_set(all());
      default:
        break;
    }
    if (const std::optional<CodeSet> set = read_class_escape(in_, false)) return emit_set(*set);
    emit_literal(read_character_escape(in_, false), options);
  }

  RegexReader in_;
  ParsedRegex result_;
  std::map<std::string, int> known_;
  size_t quantifiers_ = 0;
};

}  // namespace

ParsedRegex parse_regex(std::string_view pattern) {
  check(pattern.size() <= kMaxPattern, ErrorKind::unsupported,
        "regular expression '{}' has {} bytes, at most {} are supported", escape(pattern),
        pattern.size(), kMaxPattern);
  const size_t invalid = unicode::find_invalid_utf8(pattern);
  check(invalid == std::string_view::npos, ErrorKind::invalid_model,
        "regular expression '{}' is not UTF-8 at byte {}", escape(pattern), invalid);
  return Parser(pattern).parse();
}

}  // namespace lathe::tokenizer
