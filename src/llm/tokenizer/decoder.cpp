// SPDX-License-Identifier: MIT
#include "llm/tokenizer/decoder.h"

#include <algorithm>
#include <cstring>

#include "llm/tokenizer/json_fields.h"
#include "llm/tokenizer/regex.h"
#include "llm/tokenizer/unicode/unicode.h"
#include "llm/tokenizer/vocabulary.h"

namespace lathe::tokenizer {
namespace {

constexpr size_t kMaxDepth = 16;
constexpr std::string_view kReplacement = "\uFFFD";
using Tokens = std::vector<std::string>;

std::unique_ptr<Decoder> make(const Json& element, const std::string& where, size_t depth);

size_t bytes_of(const Tokens& tokens) {
  size_t bytes = 0;
  for (const std::string& token : tokens) bytes += token.size();
  return bytes;
}

// A file's decoder may enlarge tokens only so far.
void check_growth(size_t before, size_t after) {
  constexpr size_t kMaxGrowth = 16;
  constexpr size_t kFreeGrowth = size_t{1} << 20;
  check(after <= kMaxGrowth * before + kFreeGrowth, ErrorKind::invalid_model,
        "the decoder enlarges tokens of {} bytes to more than {} bytes", before,
        kMaxGrowth * before + kFreeGrowth);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) {  // as in Rust: before every character and at the end
    std::string out(to);
    for (size_t at = 0; at < text.size();) {
      const size_t size = unicode::length(text[at]);
      out.append(text, at, size).append(to);
      at += size;
    }
    text = std::move(out);
    return;
  }
  size_t at = text.find(from);
  if (at == std::string::npos) return;
  if (to.size() > from.size()) {
    std::string out;
    size_t done = 0;
    for (; at != std::string::npos; at = text.find(from, done)) {
      out.append(text, done, at - done).append(to);
      done = at + from.size();
    }
    text = out.append(text, done);
    return;
  }
  // Works in place: the write position never passes the read position.
  char* write = text.data() + at;
  const auto keep = [&](size_t begin, size_t end) {
    std::memmove(write, text.data() + begin, end - begin);
    write += end - begin;
  };
  for (size_t done = at;; at = text.find(from, done)) {
    keep(done, std::min(at, text.size()));
    if (at == std::string::npos) break;
    write = std::ranges::copy(to, write).out;
    done = at + from.size();
  }
  text.resize(static_cast<size_t>(write - text.data()));
}

// Removes the blanks that tokenisation puts around English punctuation.
void clean_up(std::string& text) {
  for (const auto& [from, to] : {std::pair{" .", "."},
                                 {" ?", "?"},
                                 {" !", "!"},
                                 {" ,", ","},
                                 {" ' ", "'"},
                                 {" n't", "n't"},
                                 {" 'm", "'m"},
                                 {" do not", " don't"},
                                 {" 's", "'s"},
                                 {" 've", "'ve"},
                                 {" 're", "'re"}}) {
    replace_all(text, from, to);
  }
}

class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }
  }

 private:
  std::string suffix_;
};

class ByteLevelDecoder : public Decoder {
 public:
  bool is_byte_level() const override { return true; }
  void apply(Tokens& tokens) const override {
    std::string all;
    std::string bytes;
    for (const std::string& token : tokens) {
      all += bytes_of_byte_level(token, bytes) ? bytes : token;
    }
    tokens.assign(1, to_valid_utf8(all));
  }
};

class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup)
      : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) {
        if (tokens[i].starts_with(prefix_)) {
          tokens[i].erase(0, prefix_.size());
        } else {
          tokens[i].insert(0, " ");
        }
      }
      if (cleanup_) clean_up(tokens[i]);
    }
  }

 private:
  std::string prefix_;
  bool cleanup_;
};

class MetaspaceDecoder : public Decoder {
 public:
  MetaspaceDecoder(const Json& element, const std::string& where)
      : replacement_(text_field(element, "replacement", where)) {
    const std::string scheme = optional_text(element, "prepend_scheme", where).value_or("always");
    check(scheme == "always" || scheme == "first" || scheme == "never", ErrorKind::invalid_model,
          "{}.prepend_scheme is '{}', expected always, first or never", where, escape(scheme));
    const bool prefix = flag_field(element, "add_prefix_space", where, true);
    check(prefix || !element.contains("prepend_scheme") || scheme == "never",
          ErrorKind::invalid_model, "{}.add_prefix_space is false, but prepend_scheme is '{}'",
          where, scheme);
    drops_first_ = prefix && scheme != "never";
    check(!replacement_.empty() && unicode::length(replacement_[0]) == replacement_.size(),
          ErrorKind::invalid_model, "{}.replacement is '{}', expected one character", where,
          escape(replacement_));
  }
  void apply(Tokens& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      replace_all(tokens[i], replacement_, i == 0 && drops_first_ ? "" : " ");
    }
  }

 private:
  std::string replacement_;
  bool drops_first_ = true;
};

class CtcDecoder : public Decoder {
 public:
  CtcDecoder(const Json& element, const std::string& where)
      : pad_(text_field(element, "pad_token", where)),
        delimiter_(text_field(element, "word_delimiter_token", where)),
        cleanup_(flag_field(element, "cleanup", where)) {}
  void apply(Tokens& tokens) const override {
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (std::string& token : tokens) {
      replace_all(token, pad_, "");
      if (!cleanup_) continue;
      clean_up(token);
      replace_all(token, delimiter_, " ");
    }
    std::erase_if(tokens, [](const std::string& token) { return token.empty(); });
  }

 private:
  std::string pad_, delimiter_;
  bool cleanup_;
};

// The byte of <0xNN>, else -1. As in the reference, NN may be +N.
int byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return -1;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  const int high = token[3] == '+' ? 0 : digit(token[3]);
  const int low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

// A run of byte tokens becomes text if it is UTF-8, else one U+FFFD per byte.
class ByteFallbackDecoder : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    size_t count = 0;  // tokens written in place
    std::string run;
    const auto flush = [&] {
      if (run.empty()) return;
      if (unicode::find_invalid_utf8(run) == std::string_view::npos) {
        tokens[count++] = run;
      } else {
        for (size_t i = 0; i < run.size(); ++i) tokens[count++] = kReplacement;
      }
      run.clear();
    };
    for (size_t i = 0; i < tokens.size(); ++i) {
      const int byte = byte_of_token(tokens[i]);
      if (byte >= 0) {
        run += static_cast<char>(byte);
        continue;
      }
      flush();
      std::swap(tokens[count++], tokens[i]);
    }
    flush();
    tokens.resize(count);
  }
};

class FuseDecoder : public Decoder {
 public:
  void apply(Tokens& tokens) const override {
    for (size_t i = 1; i < tokens.size(); ++i) tokens.front() += tokens[i];
    tokens.resize(1);
  }
};

class StripDecoder : public Decoder {
 public:
  StripDecoder(const Json& element, const std::string& where)
      : content_(text_field(element, "content", where)),
        start_(to_count(get_field(element, "start", where), where + ".start")),
        stop_(to_count(get_field(element, "stop", where), where + ".stop")) {
    check(!content_.empty() && unicode::length(content_[0]) == content_.size(),
          ErrorKind::invalid_model, "{}.content is '{}', expected one character", where,
          escape(content_));
  }
  void apply(Tokens& tokens) const override {
    for (std::string& token : tokens) {
      size_t begin = 0;
      for (size_t i = 0; i < start_ && token.compare(begin, content_.size(), content_) == 0; ++i) {
        begin += content_.size();
      }
      size_t end = token.size();
      for (size_t i = 0; i < stop_ && end >= begin + content_.size(); ++i) {
        if (token.compare(end - content_.size(), content_.size(), content_) != 0) break;
        end -= content_.size();
      }
      token.resize(end);
      token.erase(0, begin);
    }
  }

 private:
  std::string content_;
  uint64_t start_, stop_;
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(const Json& element, const std::string& where)
      : pattern_(get_field(element, "pattern", where), where + ".pattern"),
        content_(text_field(element, "content", where)) {}
  void apply(Tokens& tokens) const override {
    const size_t before = bytes_of(tokens);
    size_t after = 0;
    for (std::string& token : tokens) {
      if (content_.size() > kUncounted) {
        std::vector<Range> matches;
        pattern_.find_all(token, matches);
        check_growth(before, after + matches.size() * content_.size());
      }
      if (pattern_.plain().empty()) {
        token = pattern_.replace_all(token, content_);
      } else {
        replace_all(token, pattern_.plain(), content_);
      }
      after += token.size();
      check_growth(before, after);
    }
  }

 private:
  // Up to this size, one replacement stays bounded without counting the matches first.
  static constexpr size_t kUncounted = 64;

  Pattern pattern_;
  std::string content_;
};

class SequenceDecoder : public Decoder {
 public:
  SequenceDecoder(const Json& element, const std::string& where, size_t depth) {
    const Json& list = array_field(element, "decoders", where);
    for (size_t i = 0; i < list.size(); ++i) {
      decoders_.push_back(make(list[i], json_path(where + ".decoders", i), depth + 1));
    }
  }
  void apply(Tokens& tokens) const override {
    const size_t before = bytes_of(tokens);
    for (const auto& decoder : decoders_) {
      decoder->apply(tokens);
      check_growth(before, bytes_of(tokens));
    }
  }

 private:
  std::vector<std::unique_ptr<Decoder>> decoders_;
};

std::unique_ptr<Decoder> make(const Json& element, const std::string& where, size_t depth) {
  check(depth < kMaxDepth, ErrorKind::invalid_model, "{} is nested deeper than {} levels", where,
        kMaxDepth);
  const std::string type = text_field(element, "type", where);
  if (type == "BPEDecoder") {
    return std::make_unique<BpeDecoder>(text_field(element, "suffix", where));
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "WordPiece") {
    return std::make_unique<WordPieceDecoder>(text_field(element, "prefix", where),
                                              flag_field(element, "cleanup", where));
  }
  if (type == "Metaspace") return std::make_unique<MetaspaceDecoder>(element, where);
  if (type == "CTC") return std::make_unique<CtcDecoder>(element, where);
  if (type == "Sequence") return std::make_unique<SequenceDecoder>(element, where, depth);
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(element, where);
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Strip") return std::make_unique<StripDecoder>(element, where);
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  fail(ErrorKind::unsupported,
       "{}.type is '{}', expected BPEDecoder, ByteLevel, WordPiece, Metaspace, CTC, Sequence, "
       "Replace, Fuse, Strip or ByteFallback",
       where, escape(type));
}

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Json& element, std::string_view where) {
  return element.is_null() ? nullptr : make(element, std::string(where), 0);
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  append_valid_utf8(bytes, out);
  return out;
}

// Each maximal prefix of a well-formed character, or else each byte, becomes one U+FFFD.
void append_valid_utf8(std::string_view bytes, std::string& out) {
  size_t bad = unicode::find_invalid_utf8(bytes);
  size_t done = 0;
  const auto at = [&](size_t i) { return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0; };
  while (bad != std::string_view::npos) {
    out.append(bytes.substr(done, bad - done)).append(kReplacement);
    const uint8_t lead = static_cast<uint8_t>(at(bad));
    const size_t size = lead >= 0xC2 && lead < 0xE0   ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 1;
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    size_t length = 1;
    while (length < size && at(bad + length) >= low && at(bad + length) <= high) {
      ++length;
      low = 0x80;
      high = 0xBF;
    }
    done = bad + length;
    const size_t next = unicode::find_invalid_utf8(bytes.substr(done));
    bad = next == std::string_view::npos ? next : done + next;
  }
  out.append(bytes.substr(done));
}

}  // namespace lathe::tokenizer
