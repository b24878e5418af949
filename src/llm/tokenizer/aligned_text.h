// SPDX-License-Identifier: MIT
// UTF-8 text during normalisation, with a map to the original bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe::tokenizer {

// Bytes [begin, end).
struct Range {
  uint32_t begin = 0;
  uint32_t end = 0;

  uint32_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

// One character of a rewritten text. `change` relates it to the old characters. 0: it replaces the
// next one. 1: it is inserted and maps to the original bytes of the previous one. -n: it replaces
// the next one, and n more are removed.
struct Change {
  char32_t character;
  int32_t change;
};

// A text with an optional map from each byte to the original bytes. Before the first edit it refers
// to the caller's text, which must outlive it, and the map is implicit. Texts are valid UTF-8 below
// 2 GiB. assign() reuses the buffers.
class AlignedText {
 public:
  AlignedText() = default;
  AlignedText(std::string_view text, bool keep_map, size_t origin = 0) {
    assign(text, keep_map, origin);
  }
  AlignedText(AlignedText&& other) noexcept { *this = std::move(other); }
  AlignedText& operator=(AlignedText&& other) noexcept;
  AlignedText(const AlignedText&) = delete;
  AlignedText& operator=(const AlignedText&) = delete;

  // `origin`: the offset of the text in the original, in bytes.
  void assign(std::string_view text, bool keep_map, size_t origin = 0);
  // Refers to bytes [begin, end) of `other` and copies their map.
  void assign_slice(const AlignedText& other, Range range);

  std::string_view view() const { return view_; }
  std::string_view view(Range range) const { return view_.substr(range.begin, range.size()); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  bool has_map() const { return keep_map_; }
  // The offset of this text's original in the whole original; edits do not change it.
  size_t origin() const { return origin_; }
  // The offset of the original of `range`. Without a map it is exact for an unedited text and for
  // the front; otherwise only its being zero is exact.
  size_t origin_of(Range range) const;
  // The original bytes of `range`, which must not be empty. Requires the map.
  Range original(Range range) const;

  // Replaces all characters by `changes`. `removed_first`: characters removed before the first
  // change.
  void transform(std::span<const Change> changes, size_t removed_first = 0);
  void prepend(std::string_view text);  // nothing if this text is empty
  void append(std::string_view text);   // nothing if this text is empty
  // Removes white space (Rust's char::is_whitespace) at either side.
  void strip(bool left, bool right);
  // Replaces each of `matches` (ascending, disjoint; empty ones insert) by `content`, which maps to
  // the last character of the match.
  void replace(std::span<const Range> matches, std::string_view content);

  // Edits from left to right (rewriter.h).
  class Rewriter;

 private:
  // InvalidModel: the text exceeds limit_.
  [[noreturn]] void fail_growth() const;
  // The original of byte `at`, relative to origin_.
  Range came_from(size_t at) const;

  std::string_view view_;               // of own_, or of the caller's text
  std::string own_, spare_;             // spare_ receives the next edit
  std::vector<Range> map_, spare_map_;  // per byte, relative to origin_; unused while implicit
  size_t origin_ = 0;
  size_t given_ = 0;  // bytes before any edit
  size_t limit_ = 0;  // bytes after an edit
  size_t shift_ = 0;  // while implicit: the original offset minus the offset
  bool keep_map_ = false;
  bool implicit_ = true;  // no edits except removals at the ends
};

}  // namespace lathe::tokenizer
