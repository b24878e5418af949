// SPDX-License-Identifier: MIT
// Edits of an AlignedText from left to right.
#pragma once

#include "llm/tokenizer/aligned_text.h"
#include "llm/tokenizer/unicode/unicode.h"

namespace lathe::tokenizer {

// Reads the text as it was and writes the new one: keep, skip, put and write until the end of the
// old text, then finish. Without a map this is appending to a string.
class AlignedText::Rewriter {
 public:
  explicit Rewriter(AlignedText& text) : text_(text), keep_map_(text.keep_map_) {
    text.spare_.clear();
    text.spare_.reserve(text.size() + text.size() / 8 + 16);
    text.spare_map_.clear();
  }

  size_t position() const { return at_; }              // in the old text
  size_t size() const { return text_.spare_.size(); }  // of the new one

  size_t next_length() const { return unicode::length(text_.view_[at_]); }

  // `bytes` bytes stay as they are.
  void keep(size_t bytes) {
    if (bytes == 0) return;
    text_.spare_.append(text_.view_.substr(at_, bytes));
    if (keep_map_)
      keep_map(bytes);
    else
      note_front(at_);
    at_ += bytes;
  }
  // Nothing takes the place of `bytes` bytes.
  void skip(size_t bytes) { at_ += bytes; }

  // `text` stands for the character that is next; it stays where it is.
  void write_next(std::string_view text) { write(text, at_); }
  // `text` stands for the character before; at the front, for nothing.
  void write_previous(std::string_view text) {
    if (at_ > 0) return write(text, unicode::previous(text_.view_, at_));
    text_.spare_.append(text);
    if (keep_map_)
      text_.spare_map_.resize(text_.spare_.size());
    else
      note_front(0);
  }
  // A character and how it relates to the old ones (see Change).
  void put(char32_t character, int32_t change) {
    const size_t before = size();
    unicode::append(text_.spare_, character);
    const size_t stands_for = change <= 0 || at_ == 0 ? at_ : unicode::previous(text_.view_, at_);
    if (keep_map_) {
      const Range from = change > 0 && at_ == 0 ? Range{} : text_.came_from(stands_for);
      text_.spare_map_.insert(text_.spare_map_.end(), size() - before, from);
    } else {
      note_front(stands_for);
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
  void write(std::string_view text, size_t stands_for) {
    text_.spare_.append(text);
    if (keep_map_) {
      text_.spare_map_.insert(text_.spare_map_.end(), text.size(), text_.came_from(stands_for));
    } else {
      note_front(stands_for);
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
  size_t front_ = 0;  // old bytes before what is first now, where no map tells
};

}  // namespace lathe::tokenizer
