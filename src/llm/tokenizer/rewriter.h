// SPDX-License-Identifier: MIT
// Edits an AlignedText from left to right.
#pragma once

#include <algorithm>

#include "llm/tokenizer/aligned_text.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {

// Reads the old text and writes a new one: call keep, skip, put and write up to the end of the old
// text, then finish.
class AlignedText::Rewriter {
 public:
  explicit Rewriter(AlignedText& text) : text_(text), keep_map_(text.keep_map_) {
    text.spare_.clear();
    text.spare_.reserve(text.size() + text.size() / 8 + 16);
    text.spare_map_.clear();
  }

  size_t position() const { return at_; }              // in the old text
  size_t size() const { return text_.spare_.size(); }  // of the new text

  size_t next_length() const { return unicode::length(text_.view_[at_]); }

  // Copies `bytes` bytes.
  void keep(size_t bytes) {
    if (bytes == 0) return;
    text_.spare_.append(text_.view_.substr(at_, bytes));
    if (keep_map_)
      keep_map(bytes);
    else
      note_front(at_);
    at_ += bytes;
  }
  // Removes `bytes` bytes.
  void skip(size_t bytes) { at_ += bytes; }

  // Inserts `text`, which maps to the next character, and keeps the position.
  void write_next(std::string_view text) { write(text, at_); }
  // Inserts `text`, which maps to the previous character; at the front, to no character.
  void write_previous(std::string_view text) {
    if (at_ > 0) return write(text, unicode::previous(text_.view_, at_));
    check_growth(text.size());
    text_.spare_.append(text);
    if (keep_map_)
      text_.spare_map_.resize(text_.spare_.size());
    else
      note_front(0);
  }
  // Writes a character; see Change.
  void put(char32_t character, int32_t change) {
    const size_t before = size();
    check_growth(4);
    unicode::append(text_.spare_, character);
    const size_t source = change <= 0 || at_ == 0 ? at_ : unicode::previous(text_.view_, at_);
    if (keep_map_) {
      const Range from = change > 0 && at_ == 0 ? Range{} : text_.came_from(source);
      text_.spare_map_.insert(text_.spare_map_.end(), size() - before, from);
    } else {
      note_front(source);
    }
    for (; change <= 0; ++change) at_ += unicode::length(text_.view_[at_]);
  }

  void finish() {
    text_.own_.swap(text_.spare_);
    text_.map_.swap(text_.spare_map_);
    text_.view_ = text_.own_;
    text_.shift_ = text_.implicit_ || front_ > 0 ? text_.shift_ + front_ : text_.shift_;
    text_.implicit_ = false;
  }

 private:
  void check_growth(size_t bytes) const {
    if (bytes > text_.limit_ - std::min(size(), text_.limit_)) text_.fail_growth();
  }
  void write(std::string_view text, size_t source) {
    check_growth(text.size());
    text_.spare_.append(text);
    if (keep_map_) {
      text_.spare_map_.insert(text_.spare_map_.end(), text.size(), text_.came_from(source));
    } else {
      note_front(source);
    }
  }
  void keep_map(size_t bytes);
  void note_front(size_t at) {
    if (noted_) return;
    noted_ = true;
    front_ = at;
  }

  AlignedText& text_;
  const bool keep_map_;
  size_t at_ = 0;
  bool noted_ = false;
  size_t front_ = 0;  // without a map: old offset of the first new byte
};

}  // namespace lathe::tokenizer
