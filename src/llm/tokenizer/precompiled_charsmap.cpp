// SPDX-License-Identifier: MIT
// The normaliser of SentencePiece models: a table from strings to strings, stored as a double-array
// trie of bytes.
#include <array>
#include <cstring>

#include "base/error.h"
#include "llm/tokenizer/normalizer.h"
#include "llm/tokenizer/rewriter.h"
#include "llm/tokenizer/unicode/graphemes.h"

namespace lathe::tokenizer {
namespace {

constexpr size_t kLongestCluster = 5;  // longer clusters are looked up by character

class Precompiled final : public Normalizer {
 public:
  Precompiled(std::string_view charsmap, std::string_view where);
  void apply(AlignedText& text) const override;

 private:
  // The replacement of the shortest prefix of `text` in the table; null data() without one.
  std::string_view look_up(std::string_view text) const;
  // Calls keep(bytes) or change(bytes, text) for consecutive parts of `text`.
  template <class Keep, class Change>
  void walk(std::string_view text, Keep&& keep, Change&& change) const;

  std::vector<uint32_t> units_;
  std::string strings_;            // NUL-terminated
  std::array<bool, 128> ascii_{};  // characters that the table may change
};

Precompiled::Precompiled(std::string_view charsmap, std::string_view where) {
  uint32_t size = 0;
  check(charsmap.size() >= sizeof size, ErrorKind::invalid_model,
        "{}: expected at least 4 bytes, found {}", where, charsmap.size());
  std::memcpy(&size, charsmap.data(), sizeof size);
  charsmap.remove_prefix(sizeof size);
  check(size <= charsmap.size() && size % sizeof(uint32_t) == 0 && size > 0,
        ErrorKind::invalid_model, "{}: its trie has {} bytes, but {} bytes follow", where, size,
        charsmap.size());
  units_.resize(size / sizeof(uint32_t));
  std::memcpy(units_.data(), charsmap.data(), size);
  strings_ = charsmap.substr(size);
  const size_t invalid = unicode::find_invalid_utf8(strings_);
  check(invalid == std::string_view::npos, ErrorKind::invalid_model,
        "{}: its strings are not UTF-8 at byte {}", where, invalid);
  for (size_t c = 0; c < ascii_.size(); ++c) {
    const char character = static_cast<char>(c);
    ascii_[c] = c == '\r' || look_up({&character, 1}).data() != nullptr;
  }
}

std::string_view Precompiled::look_up(std::string_view text) const {
  const auto offset = [](uint32_t unit) -> size_t {
    return (unit >> 10) << ((unit & 1 << 9) >> 6);
  };
  size_t at = offset(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    at ^= byte;
    if (byte == 0 || at >= units_.size()) return {};
    const uint32_t unit = units_[at];
    if ((unit & (1u << 31 | 0xFF)) != byte) return {};
    at ^= offset(unit);
    if ((unit >> 8 & 1) == 0) continue;
    const size_t start = at < units_.size() ? units_[at] & 0x7FFFFFFF : strings_.size();
    if (start >= strings_.size()) return {};
    if ((static_cast<uint8_t>(strings_[start]) & 0xC0) == 0x80) return {};
    return std::string_view(strings_).substr(start, strings_.find('\0', start) - start);
  }
  return {};
}

template <class Keep, class Change>
void Precompiled::walk(std::string_view text, Keep&& keep, Change&& change) const {
  const auto is_plain = [&](size_t at) {  // unchanged ASCII without a combining successor
    return static_cast<uint8_t>(text[at]) < 0x80 && !ascii_[static_cast<uint8_t>(text[at])] &&
           (at + 1 == text.size() || static_cast<uint8_t>(text[at + 1]) < 0x80);
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_plain(end)) ++end;
    if (end > at) {
      keep(end - at);
      at = end;
      continue;
    }
    end = unicode::grapheme_end(text, at);
    if (end - at <= kLongestCluster) {
      const std::string_view found = look_up(text.substr(at, end - at));
      if (found.data() != nullptr) {
        change(end - at, found);
        at = end;
        continue;
      }
    }
    while (at < end) {
      const size_t length = unicode::length(text[at]);
      const std::string_view found = look_up(text.substr(at, length));
      if (found.data() != nullptr)
        change(length, found);
      else
        keep(length);
      at += length;
    }
  }
}

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<uint8_t>(c) & 0xC0) != 0x80;
  return count;
}

void Precompiled::apply(AlignedText& text) const {
  const std::string_view view = text.view();
  bool modified = false;
  const auto ignore = [](size_t) {};
  if (!text.has_map()) {
    AlignedText::Rewriter rewriter(text);
    walk(
        view, [&](size_t bytes) { rewriter.keep(bytes); },
        [&](size_t bytes, std::string_view content) {
          modified = true;
          rewriter.skip(bytes);
          rewriter.write_previous(content);
        });
    if (modified) rewriter.finish();
    return;
  }
  walk(view, ignore, [&](size_t, std::string_view) { modified = true; });
  if (!modified) return;
  // The reference attributes removed and added characters to the last character before the next
  // one. If the front becomes empty, all later characters map to their predecessors.
  std::vector<Change> changes;
  size_t at = 0;
  const auto put = [&](std::string_view content) {
    for (size_t i = 0; i < content.size();) changes.push_back({unicode::next(content, i), 0});
  };
  walk(
      view,
      [&](size_t bytes) {
        put(view.substr(at, bytes));
        at += bytes;
      },
      [&](size_t bytes, std::string_view content) {
        const size_t old_count = count_characters(view.substr(at, bytes));
        const size_t new_count = count_characters(content);
        put(content);
        for (size_t i = old_count; i < new_count; ++i) {
          changes[changes.size() - 1 - (i - old_count)].change = 1;
        }
        if (new_count < old_count && !changes.empty()) {
          changes.back().change -= static_cast<int32_t>(old_count - new_count);
        }
        at += bytes;
      });
  text.transform(changes);
}

}  // namespace

std::unique_ptr<Normalizer> make_precompiled_normalizer(std::string_view charsmap,
                                                        std::string_view where) {
  return std::make_unique<Precompiled>(charsmap, where);
}

}  // namespace lathe::tokenizer
