// SPDX-License-Identifier: MIT
#include "llm/tokenizer/stream.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::tokenizer {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";
// After this many ids that end within a character, all but the incomplete tail is emitted.
constexpr size_t kMaxHeldIds = 1024;
constexpr size_t kContextIds = 16;  // ids kept as context then
constexpr int kMaxOpenBytes = 3;    // of an incomplete character; each may decode to U+FFFD

}  // namespace

void DecodeStream::decode(size_t from, std::string& text) {
  tokenizer_->decode(std::span(ids_).subspan(from), skip_special_tokens_, text, buffers_);
}

std::string DecodeStream::step(uint32_t id) {
  std::string out;
  step(id, out);
  return out;
}

// The last emitted ids stay as context because decoders treat the first token specially.
void DecodeStream::step(uint32_t id, std::string& out) {
  if (skip_special_tokens_ && tokenizer_->is_special(id)) return;  // ignored
  if (prefix_.empty() && !ids_.empty()) {
    decode(0, text_);
    if (!text_.ends_with(kReplacement)) {
      std::swap(prefix_, text_);
      prefix_ids_ = ids_.size();
    }
  }
  ids_.push_back(id);
  decode(0, text_);
  // Emitted text does not change, even if the decoder's text for it does.
  const bool extends = text_.starts_with(prefix_);
  if (!extends) {
    decode(prefix_ids_, tail_);
    text_.assign(prefix_).append(tail_);
  }
  if (text_.size() <= prefix_.size()) return;
  const bool open = text_.ends_with(kReplacement);
  if (open && ids_.size() - prefix_ids_ < kMaxHeldIds) return;
  size_t given = text_.size();
  for (int i = 0;
       i < kMaxOpenBytes && std::string_view(text_).substr(0, given).ends_with(kReplacement); ++i) {
    given -= kReplacement.size();
  }
  given = std::max(given, prefix_.size());
  out.append(text_, prefix_.size(), given - prefix_.size());
  const size_t dropped = open ? ids_.size() - kContextIds : prefix_ids_;
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(dropped));
  decode(0, prefix_);
  for (size_t held = text_.size() - given; held > 0 && prefix_.ends_with(kReplacement);
       held -= kReplacement.size()) {
    prefix_.resize(prefix_.size() - kReplacement.size());
  }
  prefix_ids_ = ids_.size();
}

std::string DecodeStream::finish() {
  decode(0, text_);
  if (!text_.starts_with(prefix_)) {
    decode(prefix_ids_, tail_);
    text_.assign(prefix_).append(tail_);
  }
  std::string out = text_.substr(prefix_.size());
  ids_.clear();
  prefix_.clear();
  prefix_ids_ = 0;
  return out;
}

StopStrings::StopStrings(std::vector<std::string> strings) {
  for (std::string& text : strings) {
    check(!text.empty(), ErrorKind::invalid_argument, "stop string {} is empty", entries_.size());
    Entry entry{std::move(text), {}, 0};
    entry.failure.assign(entry.text.size() + 1, 0);
    size_t border = 0;
    for (size_t i = 1; i < entry.text.size(); ++i) {
      while (border > 0 && entry.text[i] != entry.text[border]) border = entry.failure[border];
      if (entry.text[i] == entry.text[border]) ++border;
      entry.failure[i + 1] = border;
    }
    entries_.push_back(std::move(entry));
  }
}

std::string StopStrings::push(std::string_view text) {
  std::string out;
  push(text, out);
  return out;
}

void StopStrings::push(std::string_view text, std::string& out) {
  if (found_) return;
  for (size_t at = 0; at < text.size(); ++at) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      Entry& entry = entries_[i];
      while (entry.matched > 0 && entry.text[entry.matched] != text[at]) {
        entry.matched = entry.failure[entry.matched];
      }
      if (entry.text[entry.matched] == text[at]) ++entry.matched;
      if (entry.matched < entry.text.size()) continue;
      if (!found_ || entry.text.size() > entries_[*found_].text.size()) found_ = i;
    }
    if (!found_) continue;
    held_ += text.substr(0, at + 1);
    held_.resize(held_.size() - entries_[*found_].text.size());
    out += held_;
    held_.clear();
    return;
  }
  size_t kept = 0;
  for (const Entry& entry : entries_) kept = std::max(kept, entry.matched);
  held_ += text;
  const size_t given = held_.size() - kept;
  out.append(held_, 0, given);
  held_.erase(0, given);
}

std::string StopStrings::finish() { return found_ ? std::string() : std::exchange(held_, {}); }

void StopStrings::reset() {
  for (Entry& entry : entries_) entry.matched = 0;
  held_.clear();
  found_.reset();
}

}  // namespace lathe::tokenizer
