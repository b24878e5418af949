// SPDX-License-Identifier: MIT
#include "llm/tokenizer/unicode/normal_form.h"

#include <string>
#include <unordered_map>

#include "llm/tokenizer/unicode/tables.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer::unicode {
namespace {

constexpr NamedTable kTables[] = {
#include "llm/tokenizer/unicode/normalisation.inc"
};

std::string_view table(std::string_view name) {
  for (const NamedTable& table : kTables) {
    if (table.name == name) return table.numbers;
  }
  return {};
}

constexpr unsigned bit(Form form) { return 1u << static_cast<unsigned>(form); }

struct Painted {
  std::vector<uint16_t> canonical = std::vector<uint16_t>(kLast + 1);
  std::vector<uint16_t> compatible = std::vector<uint16_t>(kLast + 1);
  std::vector<uint8_t> classes = std::vector<uint8_t>(kLast + 1);
  // Bits of the forms that change the character, alone or beside others.
  std::vector<uint8_t> disturbed = std::vector<uint8_t>(kLast + 1);
  std::vector<std::u32string> decompositions{U""};
  std::unordered_map<uint64_t, char32_t> pairs;

  Painted() {
    paint_decompositions("canonical", canonical, 15);
    paint_decompositions("compatible", compatible, bit(Form::nfkc) | bit(Form::nfkd));
    for (NumberReader reader(table("pairs")); !reader.at_end();) {
      result_ += reader.next();
      const uint64_t first = reader.next(), second = reader.next();
      pairs.emplace(first << 32 | second, result_);
      // NFC recomposes the pair; NFKC does too, unless a compatible decomposition replaces it.
      const unsigned stays =
          compatible[result_] != 0 ? bit(Form::nfc) : bit(Form::nfc) | bit(Form::nfkc);
      disturbed[result_] = static_cast<uint8_t>(disturbed[result_] & ~stays);
      seconds_.push_back(static_cast<char32_t>(second));
    }
    for (const char32_t c : seconds_) disturb(c, c, bit(Form::nfc) | bit(Form::nfkc));
    paint_classes();
    using namespace hangul;
    disturb(kSyllable, kSyllable + kSyllables - 1, bit(Form::nfd) | bit(Form::nfkd));
    disturb(kVowel, kVowel + kVowels - 1, bit(Form::nfc) | bit(Form::nfkc));
    disturb(kTail + 1, kTail + kTails - 1, bit(Form::nfc) | bit(Form::nfkc));
  }

 private:
  void disturb(char32_t first, char32_t last, unsigned forms) {
    for (char32_t c = first; c <= last; ++c)
      disturbed[c] = static_cast<uint8_t>(disturbed[c] | forms);
  }

  void paint_decompositions(std::string_view name, std::vector<uint16_t>& index, unsigned forms) {
    char32_t c = 0;
    for (NumberReader reader(table(name)); !reader.at_end();) {
      c += reader.next();
      std::u32string text(reader.next(), 0);
      for (char32_t& x : text) x = reader.next();
      index[c] = static_cast<uint16_t>(decompositions.size());
      decompositions.push_back(std::move(text));
      disturb(c, c, forms);
    }
  }

  void paint_classes() {
    char32_t end = 0;
    for (NumberReader reader(table("classes")); !reader.at_end();) {
      const char32_t first = end + reader.next();
      end = first + reader.next();
      const uint32_t value = reader.next();
      for (char32_t c = first; c < end; ++c) classes[c] = static_cast<uint8_t>(value);
      disturb(first, end - 1, 15);
    }
  }

  char32_t result_ = 0;
  std::vector<char32_t> seconds_;
};

struct Tables {
  explicit Tables(Painted painted = {})
      : canonical(painted.canonical),
        compatible(painted.compatible),
        classes(painted.classes),
        disturbed(painted.disturbed),
        decompositions(std::move(painted.decompositions)),
        pairs(std::move(painted.pairs)) {}

  TwoStage<uint16_t> canonical, compatible;
  TwoStage<uint8_t> classes, disturbed;
  std::vector<std::u32string> decompositions;
  std::unordered_map<uint64_t, char32_t> pairs;
};

const Tables& tables() {
  static const Tables tables;
  return tables;
}

}  // namespace

bool is_inert(char32_t character, Form form) {
  return (tables().disturbed[character] & bit(form)) == 0;
}

std::u32string_view decomposition(char32_t character, bool compatible) {
  const Tables& t = tables();
  if (compatible) {
    if (const uint16_t index = t.compatible[character]) return t.decompositions[index];
  }
  return t.decompositions[t.canonical[character]];
}

uint8_t combining_class(char32_t character) { return tables().classes[character]; }

char32_t compose(char32_t first, char32_t second) {
  using namespace hangul;
  if (first - kLead < 19 && second - kVowel < kVowels) {
    return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTails;
  }
  if (first - kSyllable < kSyllables && (first - kSyllable) % kTails == 0 &&
      second - (kTail + 1) < kTails - 1) {
    return first + (second - kTail);
  }
  const auto& pairs = tables().pairs;
  const auto it = pairs.find(uint64_t{first} << 32 | second);
  return it == pairs.end() ? 0 : it->second;
}

}  // namespace lathe::tokenizer::unicode
