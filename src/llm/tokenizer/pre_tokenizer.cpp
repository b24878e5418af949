// SPDX-License-Identifier: MIT
#include "llm/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "llm/tokenizer/byte_level.h"
#include "llm/tokenizer/part_fields.h"
#include "llm/tokenizer/regex.h"
#include "llm/tokenizer/rewriter.h"
#include "llm/tokenizer/split_behavior.h"

namespace lathe::tokenizer {
namespace {

constexpr int kMaxDepth = 32;
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Replaces each piece by the pieces that split(piece, result) appends.
template <class F>
void refine(Pieces& pieces, F&& split) {
  thread_local Pieces result;
  result.clear();
  for (const Range piece : pieces) split(piece, result);
  pieces.swap(result);
}

void add(Pieces& pieces, size_t begin, size_t end) {
  if (begin < end) pieces.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
}

// Calls each(character, begin, end) for the characters of a piece.
template <class F>
void for_each_character(std::string_view text, Range piece, F&& each) {
  for (size_t at = piece.begin; at < piece.end;) {
    const size_t begin = at;
    const char32_t character = unicode::next(text, at);
    each(character, begin, at);
  }
}

void split_matches(const AlignedText& text, Pieces& pieces, const Regex* regex,
                   const Pattern* pattern, SplitBehavior behavior, bool invert) {
  thread_local std::vector<Range> matches;
  refine(pieces, [&](Range piece, Pieces& out) {
    matches.clear();
    const std::string_view view = text.view(piece);
    if (regex != nullptr)
      regex->find_all(view, matches);
    else
      pattern->find_all(view, matches);
    add_split(piece, matches, behavior, invert, out);
  });
}

class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(const PartFields& fields)
      : add_prefix_space_(fields.boolean("add_prefix_space", true)) {
    if (fields.boolean("use_regex", true)) regex_.emplace(kGpt2Pattern);
  }

  void split(AlignedText& text, Pieces& pieces) const override {
    if (add_prefix_space_) add_spaces(text, pieces);
    if (regex_) {
      split_matches(text, pieces, &*regex_, nullptr, SplitBehavior::isolated, false);
    }
    if (!leave_bytes_) write_bytes_as_characters(text, &pieces);
  }
  bool leave_bytes() override { return leave_bytes_ = true; }

 private:
  static void add_spaces(AlignedText& text, Pieces& pieces) {
    const std::string_view view = text.view();
    const auto starts_with_space = [&](Range piece) { return view[piece.begin] == ' '; };
    if (std::all_of(pieces.begin(), pieces.end(), starts_with_space)) return;
    AlignedText::Rewriter rewriter(text);
    for (Range& piece : pieces) {
      rewriter.skip(piece.begin - rewriter.position());
      const auto begin = static_cast<uint32_t>(rewriter.size());
      if (!starts_with_space(piece)) rewriter.write_next(" ");
      rewriter.keep(piece.size());
      piece = {begin, static_cast<uint32_t>(rewriter.size())};
    }
    rewriter.finish();
  }

  bool add_prefix_space_;
  bool leave_bytes_ = false;
  std::optional<Regex> regex_;
};

class Split final : public PreTokenizer {
 public:
  explicit Split(const PartFields& fields)
      : pattern_(fields.at("pattern"), fields.place("pattern")),
        behavior_(read_behavior(fields.string("behavior"), fields.place("behavior"))),
        invert_(fields.boolean("invert", false)) {}

  void split(AlignedText& text, Pieces& pieces) const override {
    split_matches(text, pieces, nullptr, &pattern_, behavior_, invert_);
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits into words and runs of other characters without white space.
class Whitespace final : public PreTokenizer {
  void split(AlignedText& text, Pieces& pieces) const override {
    const std::string_view view = text.view();
    refine(pieces, [&](Range piece, Pieces& out) {
      enum { space, word, other } last = space;
      size_t start = piece.begin;
      for_each_character(view, piece, [&](char32_t c, size_t begin, size_t end) {
        const uint16_t flags = unicode::flags(c);
        const auto kind = flags & unicode::kWord ? word : flags & unicode::kSpace ? space : other;
        if (kind != last) {
          if (last != space) add(out, start, begin);
          start = begin;
          last = kind;
        }
        if (end == piece.end && last != space) add(out, start, end);
      });
    });
  }
};

void remove_white_space(std::string_view view, Pieces& pieces) {
  refine(pieces, [&](Range piece, Pieces& out) {
    size_t start = piece.begin;
    for_each_character(view, piece, [&](char32_t c, size_t begin, size_t end) {
      if (!unicode::is_white_space(c)) return;
      add(out, start, begin);
      start = end;
    });
    add(out, start, piece.end);
  });
}

class WhitespaceSplit final : public PreTokenizer {
  void split(AlignedText& text, Pieces& pieces) const override {
    remove_white_space(text.view(), pieces);
  }
};

// Splits at characters for which match(character) is true.
template <class F>
void split_characters(const AlignedText& text, Pieces& pieces, SplitBehavior behavior, F&& match) {
  thread_local std::vector<Range> matches;
  const std::string_view view = text.view();
  refine(pieces, [&](Range piece, Pieces& out) {
    matches.clear();
    for_each_character(view, piece, [&](char32_t c, size_t begin, size_t end) {
      if (match(c)) {
        matches.push_back(
            {static_cast<uint32_t>(begin - piece.begin), static_cast<uint32_t>(end - piece.begin)});
      }
    });
    add_split(piece, matches, behavior, false, out);
  });
}

bool is_punctuation(char32_t c) { return unicode::is(c, unicode::kPunctuation); }

class Punctuation final : public PreTokenizer {
 public:
  explicit Punctuation(const PartFields& fields) {
    if (fields.find("behavior") == nullptr) return;
    behavior_ = read_behavior(fields.string("behavior"), fields.place("behavior"));
  }
  void split(AlignedText& text, Pieces& pieces) const override {
    split_characters(text, pieces, behavior_, is_punctuation);
  }

 private:
  SplitBehavior behavior_ = SplitBehavior::isolated;
};

class Bert final : public PreTokenizer {
  void split(AlignedText& text, Pieces& pieces) const override {
    remove_white_space(text.view(), pieces);
    split_characters(text, pieces, SplitBehavior::isolated, is_punctuation);
  }
};

class Digits final : public PreTokenizer {
 public:
  explicit Digits(const PartFields& fields)
      : behavior_(fields.boolean("individual_digits", false) ? SplitBehavior::isolated
                                                             : SplitBehavior::contiguous) {}
  void split(AlignedText& text, Pieces& pieces) const override {
    split_characters(text, pieces, behavior_,
                     [](char32_t c) { return unicode::is(c, unicode::kNumeric); });
  }

 private:
  SplitBehavior behavior_;
};

// Reads a field with one character.
char32_t read_character(const PartFields& fields, const char* key) {
  const std::string& text = fields.string(key);
  size_t at = 0;
  const char32_t character = text.empty() ? 0 : unicode::next(text, at);
  check(!text.empty() && at == text.size(), ErrorKind::invalid_model,
        "{}: expected one character, found '{}'", fields.place(key), escape(text));
  return character;
}

class CharDelimiterSplit final : public PreTokenizer {
 public:
  explicit CharDelimiterSplit(const PartFields& fields)
      : delimiter_(read_character(fields, "delimiter")) {}
  void split(AlignedText& text, Pieces& pieces) const override {
    split_characters(text, pieces, SplitBehavior::removed,
                     [this](char32_t c) { return c == delimiter_; });
  }

 private:
  char32_t delimiter_;
};

// Replaces spaces; the replacement starts a piece.
class Metaspace final : public PreTokenizer {
 public:
  explicit Metaspace(const PartFields& fields) : split_(fields.boolean("split", true)) {
    unicode::append(replacement_, read_character(fields, "replacement"));
    const bool add_prefix_space = fields.boolean("add_prefix_space", true);
    const bool given = fields.find("prepend_scheme") != nullptr;
    const std::string scheme = given              ? fields.string("prepend_scheme")
                               : add_prefix_space ? "always"
                                                  : "never";
    check(scheme == "always" || scheme == "first" || scheme == "never", ErrorKind::invalid_model,
          "{}: expected always, first or never, found '{}'", fields.place("prepend_scheme"),
          escape(scheme));
    check(add_prefix_space || scheme == "never", ErrorKind::invalid_model,
          "{}: expected 'never' because add_prefix_space is false, found '{}'",
          fields.place("prepend_scheme"), scheme);
    scheme_ = scheme[0];
  }

  bool only_first() const { return scheme_ == 'f'; }

  void split(AlignedText& text, Pieces& pieces) const override {
    const std::string_view view = text.view();
    thread_local Pieces result;
    result.clear();
    AlignedText::Rewriter rewriter(text);
    for (const Range piece : pieces) {
      rewriter.skip(piece.begin - rewriter.position());
      size_t start = rewriter.size();
      const bool marked = view[piece.begin] == ' ' || text.view(piece).starts_with(replacement_);
      if (!marked && (scheme_ == 'a' || (scheme_ == 'f' && text.origin_of(piece) == 0))) {
        rewriter.write_next(replacement_);
      }
      for (size_t at = piece.begin; at < piece.end;) {
        const size_t mark = find_mark(view, at, piece.end);
        rewriter.keep(mark - at);
        if (mark == piece.end) break;
        if (split_) {
          add(result, start, rewriter.size());
          start = rewriter.size();
        }
        if (view[mark] == ' ') {
          rewriter.write_next(replacement_);
          rewriter.skip(1);
          at = mark + 1;
        } else {
          rewriter.keep(replacement_.size());
          at = mark + replacement_.size();
        }
      }
      add(result, start, rewriter.size());
    }
    rewriter.finish();
    pieces.swap(result);
  }

 private:
  // The next space or, if it splits, the next replacement.
  size_t find_mark(std::string_view view, size_t at, size_t end) const {
    for (; at < end; ++at) {
      if (view[at] == ' ') return at;
      if (split_ && view[at] == replacement_[0] && view.substr(at).starts_with(replacement_)) {
        return at;
      }
    }
    return end;
  }

  std::string replacement_;
  char scheme_;  // its first letter
  bool split_;
};

class UnicodeScripts final : public PreTokenizer {
  void split(AlignedText& text, Pieces& pieces) const override {
    const std::string_view view = text.view();
    refine(pieces, [&](Range piece, Pieces& out) {
      // As in the reference, text before the first character with a script is lost.
      std::optional<size_t> start;
      uint8_t last = 0;
      for_each_character(view, piece, [&](char32_t c, size_t begin, size_t) {
        const uint8_t script = unicode::script(c);
        if (script == 0) return;
        if (script != last) {
          if (start) add(out, *start, begin);
          start = begin;
        }
        last = script;
      });
      if (start) add(out, *start, piece.end);
    });
  }
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(const PartFields& fields) {
    const nlohmann::json* const length = fields.find("length");
    if (length == nullptr) return;
    check(length->is_number_unsigned() && *length > 0, ErrorKind::invalid_model,
          "{}: expected a length above 0, found {}", fields.place("length"),
          length->is_number() ? length->dump() : length->type_name());
    length_ = length->get<size_t>();
  }
  void split(AlignedText& text, Pieces& pieces) const override {
    const std::string_view view = text.view();
    refine(pieces, [&](Range piece, Pieces& out) {
      size_t start = piece.begin, count = 0;
      for_each_character(view, piece, [&](char32_t, size_t begin, size_t) {
        if (count++ < length_) return;
        add(out, start, begin);
        start = begin;
        count = 1;
      });
      add(out, start, piece.end);
    });
  }

 private:
  size_t length_ = 5;
};

class Sequence final : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> parts) : parts_(std::move(parts)) {}

  void split(AlignedText& text, Pieces& pieces) const override {
    for (const auto& part : parts_) part->split(text, pieces);
  }
  bool needs_map() const override {
    for (size_t i = 1; i < parts_.size(); ++i) {  // the first step has the original text
      const auto* const metaspace = dynamic_cast<const Metaspace*>(parts_[i].get());
      if (metaspace != nullptr && metaspace->only_first()) return true;
    }
    return false;
  }
  bool leave_bytes() override { return !parts_.empty() && parts_.back()->leave_bytes(); }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> parts_;
};

using PreTokenizers = std::vector<std::unique_ptr<PreTokenizer>>;

std::unique_ptr<PreTokenizer> make_one(const PartFields& fields) {
  const std::string& type = fields.string("type");
  if (type == "ByteLevel") return std::make_unique<ByteLevel>(fields);
  if (type == "Split") return std::make_unique<Split>(fields);
  if (type == "Whitespace") return std::make_unique<Whitespace>();
  if (type == "WhitespaceSplit") return std::make_unique<WhitespaceSplit>();
  if (type == "Punctuation") return std::make_unique<Punctuation>(fields);
  if (type == "BertPreTokenizer") return std::make_unique<Bert>();
  if (type == "Digits") return std::make_unique<Digits>(fields);
  if (type == "CharDelimiterSplit") return std::make_unique<CharDelimiterSplit>(fields);
  if (type == "Metaspace") return std::make_unique<Metaspace>(fields);
  if (type == "UnicodeScripts") return std::make_unique<UnicodeScripts>();
  if (type == "FixedLength") return std::make_unique<FixedLength>(fields);
  fail(ErrorKind::unsupported, "{}: unknown pre-tokenizer '{}'", fields.where(), escape(type));
}

// Flattens nested sequences.
void collect(const nlohmann::json& element, std::string_view where, int depth,
             PreTokenizers& parts) {
  check(depth < kMaxDepth, ErrorKind::invalid_model,
        "{}: sequences are nested deeper than {} levels", where, kMaxDepth);
  const PartFields fields(element, where);
  if (fields.string("type") != "Sequence") {
    parts.push_back(make_one(fields));
    return;
  }
  size_t index = 0;
  for (const nlohmann::json& part : fields.array("pretokenizers")) {
    collect(part, fields.place("pretokenizers", index++), depth + 1, parts);
  }
}

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(const nlohmann::json& element,
                                                 std::string_view where) {
  if (element.is_null()) return nullptr;
  PreTokenizers parts;
  collect(element, where, 0, parts);
  if (parts.size() == 1) return std::move(parts[0]);
  return std::make_unique<Sequence>(std::move(parts));
}

void pre_tokenize(const PreTokenizer* pre_tokenizer, AlignedText& text, Pieces& pieces) {
  pieces.clear();
  if (text.empty()) return;
  pieces.push_back({0, static_cast<uint32_t>(text.size())});
  if (pre_tokenizer != nullptr) pre_tokenizer->split(text, pieces);
}

}  // namespace lathe::tokenizer
