// SPDX-License-Identifier: MIT
#include "llm/tokenizer/aligned_text.h"

#include "base/error.h"
#include "llm/tokenizer/rewriter.h"

namespace lathe::tokenizer {
namespace {

// Normal forms enlarge a character up to eleven times; short texts may take more.
constexpr size_t kMaxGrowth = 16;
constexpr size_t kFreeGrowth = size_t{1} << 20;

uint32_t narrow(size_t offset) { return static_cast<uint32_t>(offset); }

// The character around byte `at`.
Range character_at(std::string_view text, size_t at) {
  size_t begin = at;
  while ((static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
  return {narrow(begin), narrow(begin + unicode::length(text[begin]))};
}

}  // namespace

AlignedText& AlignedText::operator=(AlignedText&& other) noexcept {
  const bool owned = other.view_.data() == other.own_.data();
  const size_t size = other.view_.size();
  own_ = std::move(other.own_);
  spare_ = std::move(other.spare_);
  map_ = std::move(other.map_);
  spare_map_ = std::move(other.spare_map_);
  view_ = owned ? std::string_view(own_).substr(0, size) : other.view_;
  origin_ = other.origin_;
  given_ = other.given_;
  limit_ = other.limit_;
  shift_ = other.shift_;
  keep_map_ = other.keep_map_;
  implicit_ = other.implicit_;
  other.assign({}, false);
  return *this;
}

void AlignedText::assign(std::string_view text, bool keep_map, size_t origin) {
  view_ = text;
  origin_ = origin;
  given_ = text.size();
  limit_ = kMaxGrowth * given_ + kFreeGrowth;
  shift_ = 0;
  keep_map_ = keep_map;
  implicit_ = true;
}

void AlignedText::assign_slice(const AlignedText& other, Range range) {
  const size_t origin = range.size() == 0 ? other.origin_ : other.origin_of(range);
  assign(other.view(range), other.keep_map_, origin);
  given_ = other.given_;
  limit_ = other.limit_;
  if (other.implicit_ || range.size() == 0) return;
  implicit_ = false;
  if (!keep_map_) return;
  map_.assign(other.map_.begin() + range.begin, other.map_.begin() + range.end);
  // Reordered marks may map to bytes before the origin. The unsigned difference then wraps around,
  // and adding the origin wraps it back.
  const auto back = static_cast<uint32_t>(origin - other.origin_);
  for (Range& from : map_) from = {from.begin - back, from.end - back};
}

void AlignedText::fail_growth() const {
  fail(ErrorKind::invalid_model,
       "the normalizer and pre-tokenizer enlarge a text of {} bytes to more than {} bytes", given_,
       limit_);
}

Range AlignedText::came_from(size_t at) const {
  if (!implicit_) return map_[at];
  const Range character = character_at(view_, at);
  return {narrow(shift_) + character.begin, narrow(shift_) + character.end};
}

size_t AlignedText::origin_of(Range range) const {
  if (implicit_) return origin_ + shift_ + range.begin;
  if (keep_map_) return (origin_ + map_[range.begin].begin) & 0xFFFFFFFFu;
  return origin_ + shift_ + range.begin;
}

Range AlignedText::original(Range range) const {
  const auto base = narrow(origin_);
  return {base + came_from(range.begin).begin, base + came_from(range.end - 1).end};
}

void AlignedText::transform(std::span<const Change> changes, size_t removed_first) {
  Rewriter rewriter(*this);
  size_t removed = 0;
  for (size_t i = 0; i < removed_first && removed < view_.size(); ++i) {
    removed += unicode::length(view_[removed]);
  }
  rewriter.skip(removed);
  for (const auto [character, change] : changes) rewriter.put(character, change);
  rewriter.finish();
}

void AlignedText::prepend(std::string_view text) {
  if (empty()) return;
  Rewriter rewriter(*this);
  rewriter.write_next(text);
  rewriter.keep(view_.size());
  rewriter.finish();
}

void AlignedText::append(std::string_view text) {
  if (empty()) return;
  Rewriter rewriter(*this);
  rewriter.keep(view_.size());
  rewriter.write_previous(text);
  rewriter.finish();
}

void AlignedText::strip(bool left, bool right) {
  size_t begin = 0, end = view_.size();
  while (left && begin < end) {
    size_t next = begin;
    if (!unicode::is_white_space(unicode::next(view_, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    size_t at = unicode::previous(view_, end);
    const size_t start = at;
    if (!unicode::is_white_space(unicode::next(view_, at))) break;
    end = start;
  }
  if (begin == 0 && end == view_.size()) return;
  if (implicit_) {
    view_ = view_.substr(begin, end - begin);
    shift_ += begin;
    return;
  }
  Rewriter rewriter(*this);
  rewriter.skip(begin);
  rewriter.keep(end - begin);
  rewriter.finish();
}

void AlignedText::replace(std::span<const Range> matches, std::string_view content) {
  if (matches.empty()) return;
  Rewriter rewriter(*this);
  for (const Range match : matches) {
    rewriter.keep(match.begin - rewriter.position());
    rewriter.skip(match.size());
    rewriter.write_previous(content);
  }
  rewriter.keep(view_.size() - rewriter.position());
  rewriter.finish();
}

void AlignedText::Rewriter::keep_map(size_t bytes) {
  std::vector<Range>& map = text_.spare_map_;
  if (!text_.implicit_) {
    map.insert(map.end(), text_.map_.begin() + at_, text_.map_.begin() + at_ + bytes);
    return;
  }
  for (size_t at = at_; at < at_ + bytes;) {
    const size_t length = unicode::length(text_.view_[at]);
    map.insert(map.end(), length, text_.came_from(at));
    at += length;
  }
}

}  // namespace lathe::tokenizer
