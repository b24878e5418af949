// SPDX-License-Identifier: MIT
// UTF-8 text under normalisation, and where each of its bytes came from.
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

// One character of a text being rewritten. `change` says how it relates to the old characters:
// 0: it takes the place of the next one; 1: it is inserted, and stands for the same original bytes
// as the one before it; -n: it takes the place of the next one and n after it are removed.
struct Change {
  char32_t character;
  int32_t change;
};

// A text, and optionally a map from each of its bytes to the bytes of the original. Until its first
// edit the text is the caller's, which must outlive it; and the map is implicit. Texts hold valid
// UTF-8 below 2 GiB. Objects are meant to be reused (assign): their buffers stay.
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

  // `origin`: where in the whole original the text begins, in bytes.
  void assign(std::string_view text, bool keep_map, size_t origin = 0);
  // What bytes [begin, end) of `other` are, origin included; they are borrowed from it.
  void assign_slice(const AlignedText& other, Range range);

  std::string_view view() const { return view_; }
  std::string_view view(Range range) const { return view_.substr(range.begin, range.size()); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  bool has_map() const { return keep_map_; }
  // Offset in the whole original at which the original of this text begins (whether or not what was
  // first is still there).
  size_t origin() const { return origin_; }
  // Where the original of `range` begins; without a map exact for an untouched text and the front,
  // else only right in being zero or not.
  size_t origin_of(Range range) const;
  // Bytes of the whole original that `range` (not empty) stands for; needs the map.
  Range original(Range range) const;

  // Puts `changes` in the place of all characters. `removed_first`: characters removed before the
  // first change.
  void transform(std::span<const Change> changes, size_t removed_first = 0);
  void prepend(std::string_view text);  // nothing if this text is empty
  void append(std::string_view text);   // nothing if this text is empty
  // Removes white space (char::is_whitespace of Rust) at either side.
  void strip(bool left, bool right);
  // Puts `content` in the place of each of `matches` (ascending, disjoint; empty ones insert); it
  // stands for the last character of the match.
  void replace(std::span<const Range> matches, std::string_view content);

  // Edits from left to right (rewriter.h).
  class Rewriter;

 private:
  // What byte `at` came from, relative to origin_.
  Range came_from(size_t at) const;

  std::string_view view_;               // of own_, or of the caller's text
  std::string own_, spare_;             // spare_ receives the next edit
  std::vector<Range> map_, spare_map_;  // per byte, relative to origin_; unused while implicit
  size_t origin_ = 0;
  size_t shift_ = 0;  // while implicit: byte i came from its character, which was shift_ further
  bool keep_map_ = false;
  bool implicit_ = true;  // no edit yet but removals at the ends
};

}  // namespace lathe::tokenizer
