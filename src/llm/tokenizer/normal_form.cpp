// SPDX-License-Identifier: MIT
#include "llm/tokenizer/normal_form.h"

#include <algorithm>

#include "llm/tokenizer/rewriter.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {
namespace {

using unicode::Form;

struct Item {
  char32_t character;
  int32_t change;
  uint64_t key;  // combining class, then the index before sorting

  int combining_class() const { return static_cast<int>(key >> 32); }
};

void push(std::vector<Item>& items, char32_t c, int32_t change) {
  items.push_back({c, change, uint64_t{unicode::combining_class(c)} << 32 | items.size()});
}

void decompose(std::string_view text, bool compatible, std::vector<Item>& items) {
  using namespace unicode::hangul;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = unicode::next(text, at);
    if (c - kSyllable < kSyllables) {
      const char32_t index = c - kSyllable;
      push(items, kLead + index / (kVowels * kTails), 0);
      push(items, kVowel + index / kTails % kVowels, 1);
      if (index % kTails != 0) push(items, kTail + index % kTails, 1);
      continue;
    }
    const std::u32string_view parts = unicode::decomposition(c, compatible);
    if (parts.empty()) push(items, c, 0);
    for (size_t i = 0; i < parts.size(); ++i) push(items, parts[i], i > 0);
  }
  for (auto it = items.begin(); it != items.end();) {  // sorts marks by class
    const auto is_mark = [](const Item& item) { return item.combining_class() != 0; };
    it = std::find_if(it, items.end(), is_mark);
    const auto end = std::find_if_not(it, items.end(), is_mark);
    std::sort(it, end, [](const Item& a, const Item& b) { return a.key < b.key; });
    it = end;
  }
}

// Composes in place: a starter absorbs following characters unless one between them blocks.
void recompose(std::vector<Item>& items) {
  size_t out = 0;
  size_t starter = items.size();  // index of the last starter in the output
  int last_class = -1;            // of the last mark kept after it
  for (const Item item : items) {
    if (starter < items.size() && last_class < item.combining_class()) {
      Item& first = items[starter];
      const char32_t composed = unicode::compose(first.character, item.character);
      if (composed != 0) {
        first.character = composed;
        first.change += item.change - 1;
        continue;
      }
    }
    if (item.combining_class() == 0) {
      starter = out;
      last_class = -1;
    } else if (starter < items.size()) {
      last_class = item.combining_class();
    }
    items[out++] = item;
  }
  items.resize(out);
}

// The first character from `at` on that the form may change; `start` is the previous one.
size_t find_disturbed(std::string_view text, size_t at, Form form, size_t& start) {
  start = at;
  while (at < text.size()) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {  // ASCII is inert in every form
      start = at++;
      continue;
    }
    size_t next = at;
    if (!unicode::is_inert(unicode::next(text, next), form)) return at;
    start = at;
    at = next;
  }
  return at;
}

size_t find_inert(std::string_view text, size_t at, Form form) {
  while (at < text.size()) {
    size_t next = at;
    if (unicode::is_inert(unicode::next(text, next), form)) return at;
    at = next;
  }
  return at;
}

}  // namespace

void normalise(AlignedText& text, Form form) {
  const std::string_view view = text.view();
  const bool composes = form == Form::nfc || form == Form::nfkc;
  const bool compatible = form == Form::nfkc || form == Form::nfkd;
  size_t start = 0;
  size_t disturbed = find_disturbed(view, 0, form, start);
  if (disturbed == view.size()) return;
  AlignedText::Rewriter rewriter(text);
  std::vector<Item> items;
  while (disturbed < view.size()) {
    rewriter.keep(start - rewriter.position());
    const size_t end = find_inert(view, disturbed, form);
    items.clear();
    decompose(view.substr(start, end - start), compatible, items);
    if (composes) recompose(items);
    for (const Item& item : items) rewriter.put(item.character, item.change);
    rewriter.skip(end - rewriter.position());
    disturbed = find_disturbed(view, end, form, start);
  }
  rewriter.keep(view.size() - rewriter.position());
  rewriter.finish();
}

}  // namespace lathe::tokenizer
