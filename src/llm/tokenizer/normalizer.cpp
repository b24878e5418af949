// SPDX-License-Identifier: MIT
#include "llm/tokenizer/normalizer.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "llm/tokenizer/base64.h"
#include "llm/tokenizer/byte_level.h"
#include "llm/tokenizer/edit_characters.h"
#include "llm/tokenizer/normal_form.h"
#include "llm/tokenizer/part_fields.h"
#include "llm/tokenizer/regex.h"

namespace lathe::tokenizer {
namespace {

constexpr int kMaxDepth = 32;

void strip_characters(AlignedText& text, const AsciiTable& ascii, uint16_t flag) {
  edit_characters(
      text, ascii, [flag](char32_t c) { return unicode::is(c, flag); },
      [](AlignedText::Rewriter& out, char32_t c) { out.skip(c < 0x80 ? 1 : out.next_length()); });
}

void lowercase(AlignedText& text) {
  static const AsciiTable ascii = make_ascii_table([](char32_t c) { return c >= 'A' && c <= 'Z'; });
  edit_characters(
      text, ascii,
      [](char32_t c) {
        return unicode::to_lower(c) != c || unicode::to_lower_several(c) != nullptr;
      },
      [](AlignedText::Rewriter& out, char32_t c) {
        if (c < 0x80) {
          const char lower = static_cast<char>(c + 32);
          out.write_next({&lower, 1});
          return out.skip(1);
        }
        const std::u32string* const several = unicode::to_lower_several(c);
        if (several == nullptr) return out.put(unicode::to_lower(c), 0);
        for (size_t i = 0; i < several->size(); ++i) out.put((*several)[i], i > 0);
      });
}

class Bert final : public Normalizer {
 public:
  explicit Bert(const PartFields& fields)
      : clean_text_(fields.boolean("clean_text", true)),
        chinese_(fields.boolean("handle_chinese_chars", true)),
        lowercase_(fields.boolean("lowercase", true)),
        strip_accents_(fields.boolean("strip_accents", lowercase_)) {}

  void apply(AlignedText& text) const override {
    if (clean_text_) clean(text);
    if (chinese_) space_chinese(text);
    if (strip_accents_) {
      normalise(text, unicode::Form::nfd);
      strip_characters(text, AsciiTable{}, unicode::kNonspacing);
    }
    if (lowercase_) lowercase(text);
  }

 private:
  static void clean(AlignedText& text) {
    const auto changes = [](char32_t c) {
      return c != ' ' && unicode::is(c, unicode::kBertRemoved | unicode::kBertSpace);
    };
    static const AsciiTable ascii = make_ascii_table(changes);
    edit_characters(text, ascii, changes, [](AlignedText::Rewriter& out, char32_t c) {
      if (unicode::is(c, unicode::kBertSpace)) out.write_next(" ");
      out.skip(out.next_length());
    });
  }

  static void space_chinese(AlignedText& text) {
    edit_characters(
        text, AsciiTable{}, [](char32_t c) { return unicode::is(c, unicode::kBertChinese); },
        [](AlignedText::Rewriter& out, char32_t) {
          out.write_next(" ");
          out.keep(out.next_length());
          out.write_previous(" ");
        });
  }

  bool clean_text_, chinese_, lowercase_, strip_accents_;
};

class Lowercase final : public Normalizer {
  void apply(AlignedText& text) const override { lowercase(text); }
};

class NormalForm final : public Normalizer {
 public:
  explicit NormalForm(unicode::Form form) : form_(form) {}
  void apply(AlignedText& text) const override { normalise(text, form_); }

 private:
  unicode::Form form_;
};

class Strip final : public Normalizer {
 public:
  explicit Strip(const PartFields& fields)
      : left_(fields.boolean("strip_left", true)), right_(fields.boolean("strip_right", true)) {}
  void apply(AlignedText& text) const override { text.strip(left_, right_); }

 private:
  bool left_, right_;
};

class StripAccents final : public Normalizer {
  void apply(AlignedText& text) const override {
    strip_characters(text, AsciiTable{}, unicode::kCombining);
  }
};

class Replace final : public Normalizer {
 public:
  explicit Replace(const PartFields& fields)
      : pattern_(fields.at("pattern"), fields.place("pattern")),
        content_(fields.string("content")) {}
  void apply(AlignedText& text) const override {
    thread_local std::vector<Range> matches;
    matches.clear();
    pattern_.find_all(text.view(), matches);
    text.replace(matches, content_);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(const PartFields& fields) : text_(fields.string("prepend")) {}
  void apply(AlignedText& text) const override { text.prepend(text_); }

 private:
  std::string text_;
};

class ByteLevel final : public Normalizer {
  void apply(AlignedText& text) const override { write_bytes_as_characters(text, nullptr); }
};

// Removes controls and replaces separators, as Google's translation models do.
class Nmt final : public Normalizer {
  void apply(AlignedText& text) const override {
    static const AsciiTable ascii = make_ascii_table(changes);
    edit_characters(text, ascii, changes, [](AlignedText::Rewriter& out, char32_t c) {
      if (is_space(c)) out.write_next(" ");
      out.skip(out.next_length());
    });
  }

  static bool is_space(char32_t c) {
    return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
           (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
           c == 0xFEFF || c == 0xFFFD;
  }
  static bool changes(char32_t c) {
    return is_space(c) || (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) ||
           c == 0x7F || c == 0x8F || c == 0x9F;
  }
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> parts) : parts_(std::move(parts)) {}
  void apply(AlignedText& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> parts_;
};

std::unique_ptr<Normalizer> make(const nlohmann::json& element, std::string_view where, int depth) {
  if (element.is_null()) return nullptr;
  const PartFields fields(element, where);
  const std::string& type = fields.string("type");
  if (type == "Sequence") {
    check(depth < kMaxDepth, ErrorKind::invalid_model,
          "{}: sequences are nested deeper than {} levels", where, kMaxDepth);
    std::vector<std::unique_ptr<Normalizer>> parts;
    for (const nlohmann::json& part : fields.array("normalizers")) {
      auto made = make(part, fields.place("normalizers", parts.size()), depth + 1);
      check(made != nullptr, ErrorKind::invalid_model, "{}: expected an object, found null",
            fields.place("normalizers", parts.size()));
      parts.push_back(std::move(made));
    }
    return std::make_unique<Sequence>(std::move(parts));
  }
  if (type == "BertNormalizer") return std::make_unique<Bert>(fields);
  if (type == "NFC") return std::make_unique<NormalForm>(unicode::Form::nfc);
  if (type == "NFD") return std::make_unique<NormalForm>(unicode::Form::nfd);
  if (type == "NFKC") return std::make_unique<NormalForm>(unicode::Form::nfkc);
  if (type == "NFKD") return std::make_unique<NormalForm>(unicode::Form::nfkd);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "Strip") return std::make_unique<Strip>(fields);
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  if (type == "Replace") return std::make_unique<Replace>(fields);
  if (type == "Prepend") return std::make_unique<Prepend>(fields);
  if (type == "ByteLevel") return std::make_unique<ByteLevel>();
  if (type == "Nmt") return std::make_unique<Nmt>();
  if (type == "Precompiled") {
    return make_precompiled_normalizer(
        decode_base64(fields.string("precompiled_charsmap"), fields.place("precompiled_charsmap")),
        fields.place("precompiled_charsmap"));
  }
  fail(ErrorKind::unsupported, "{}: unknown normalizer '{}'", where, escape(type));
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const nlohmann::json& element, std::string_view where) {
  return make(element, where, 0);
}

}  // namespace lathe::tokenizer
