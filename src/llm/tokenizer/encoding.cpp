// SPDX-License-Identifier: MIT
#include "llm/tokenizer/encoding.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::tokenizer {
namespace {

// Maximum tokens in one result with its overflow, or in one padded list: about 120 MB.
constexpr size_t kMaxTokens = size_t{1} << 21;

void check_total(size_t lists, size_t length, std::string_view what) {
  check(lists <= kMaxTokens && length <= kMaxTokens && lists * length <= kMaxTokens,
        ErrorKind::invalid_argument,
        "{} produces {} lists of {} tokens, more than {} in all: use other lengths or a smaller "
        "stride",
        what, lists, length, kMaxTokens);
}

template <class T>
void append(std::vector<T>& to, std::vector<T>&& from) {
  if (to.empty()) {
    to = std::move(from);
  } else {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  }
}

template <class T>
std::vector<T> slice(const std::vector<T>& list, size_t begin, size_t end) {
  return {list.begin() + static_cast<ptrdiff_t>(begin), list.begin() + static_cast<ptrdiff_t>(end)};
}

template <class T>
void fill(std::vector<T>& list, size_t count, const T& value, bool left) {
  list.insert(left ? list.begin() : list.end(), count, value);
}

// Keeps the first (or last) max_length tokens. Windows that overlap by stride hold the rest.
void cut(Encoding& encoding, size_t max_length, const Truncation& truncation) {
  const size_t size = encoding.size();
  if (max_length >= size) return;
  if (max_length == 0) {
    Encoding all = std::move(encoding);
    encoding = Encoding();
    encoding.detailed = all.detailed;
    encoding.overflowing.push_back(std::move(all));
    return;
  }
  check(truncation.stride < max_length, ErrorKind::invalid_argument,
        "truncation keeps {} tokens without special tokens, but its stride is {}: use a smaller "
        "stride",
        max_length, truncation.stride);
  const size_t step = max_length - truncation.stride;
  const size_t windows = (size - max_length + step - 1) / step + 1;
  if (windows * max_length > 4 * size) check_total(windows, max_length, "truncation");
  Encoding kept;
  for (size_t done = 0;; done += step) {
    size_t begin = 0;
    size_t end = 0;
    if (truncation.left) {
      end = size - done;
      begin = end > max_length ? end - max_length : 0;
    } else {
      begin = done;
      end = std::min(begin + max_length, size);
    }
    Encoding window = encoding.part(begin, end);
    if (done == 0) {
      kept = std::move(window);
    } else {
      kept.overflowing.push_back(std::move(window));
    }
    if (truncation.left ? begin == 0 : end == size) break;
  }
  encoding = std::move(kept);
}

void pad_one(Encoding& encoding, size_t length, const Padding& padding) {
  if (length > 4 * encoding.size()) {
    check_total(encoding.overflowing.size() + 1, length, "padding");
  }
  for (Encoding& overflow : encoding.overflowing) pad_one(overflow, length, padding);
  if (encoding.size() >= length) return;
  const size_t count = length - encoding.size();
  fill(encoding.ids, count, padding.id, padding.left);
  if (encoding.detailed) {
    fill(encoding.type_ids, count, padding.type_id, padding.left);
    fill(encoding.tokens, count, padding.token, padding.left);
    fill(encoding.words, count, Encoding::kNoWord, padding.left);
    fill(encoding.offsets, count, {0u, 0u}, padding.left);
    fill(encoding.special_tokens_mask, count, uint8_t{1}, padding.left);
    fill(encoding.attention_mask, count, uint8_t{0}, padding.left);
  }
  if (!padding.left) return;
  for (auto& [index, range] : encoding.sequence_ranges) {
    range.first += count;
    range.second += count;
  }
}

// Returns both lengths; shortens the longer text first, then both equally.
std::pair<size_t, size_t> share(size_t first, size_t second, size_t max_length) {
  const bool swapped = first > second;
  if (swapped) std::swap(first, second);
  second = first > max_length ? first : std::max(first, max_length - first);
  if (first + second > max_length) {
    first = max_length / 2;
    second = first + max_length % 2;
  }
  if (swapped) std::swap(first, second);
  return {first, second};
}

}  // namespace

void Encoding::add_special(uint32_t id, const std::string& token, uint32_t type_id) {
  ids.push_back(id);
  if (!detailed) return;
  type_ids.push_back(type_id);
  tokens.push_back(token);
  words.push_back(kNoWord);
  offsets.emplace_back(0, 0);
  special_tokens_mask.push_back(1);
  attention_mask.push_back(1);
}

void Encoding::set_type_ids(uint32_t type_id) {
  if (detailed) type_ids.assign(ids.size(), type_id);
}

Encoding Encoding::part(size_t begin, size_t end) const {
  Encoding out;
  out.detailed = detailed;
  out.ids = slice(ids, begin, end);
  if (!detailed) return out;
  out.type_ids = slice(type_ids, begin, end);
  out.tokens = slice(tokens, begin, end);
  out.words = slice(words, begin, end);
  out.offsets = slice(offsets, begin, end);
  out.special_tokens_mask = slice(special_tokens_mask, begin, end);
  out.attention_mask = slice(attention_mask, begin, end);
  return out;
}

void Encoding::merge(Encoding other) {
  if (!overflowing.empty() && !other.overflowing.empty()) {
    check_total((overflowing.size() + 1) * (other.overflowing.size() + 1), size() + other.size(),
                "truncation");
  }
  std::vector<Encoding> overflows;
  for (const Encoding& own : overflowing) {
    Encoding combined = own;
    combined.merge(other);
    overflows.push_back(std::move(combined));
    for (const Encoding& theirs : other.overflowing) {
      combined = own;
      combined.merge(theirs);
      overflows.push_back(std::move(combined));
    }
  }
  for (const Encoding& theirs : other.overflowing) {
    Encoding combined = *this;
    combined.merge(theirs);
    overflows.push_back(std::move(combined));
  }
  const size_t before = ids.size();
  for (const auto& [index, range] : other.sequence_ranges) {
    sequence_ranges[index] = {before + range.first, before + range.second};
  }
  append(ids, std::move(other.ids));
  append(type_ids, std::move(other.type_ids));
  append(tokens, std::move(other.tokens));
  append(words, std::move(other.words));
  append(offsets, std::move(other.offsets));
  append(special_tokens_mask, std::move(other.special_tokens_mask));
  append(attention_mask, std::move(other.attention_mask));
  overflowing = std::move(overflows);
}

void truncate(Encoding& first, Encoding* second, const Truncation& truncation) {
  const size_t max_length = truncation.max_length;
  if (max_length == 0) {
    cut(first, 0, truncation);
    if (second != nullptr) cut(*second, 0, truncation);
    return;
  }
  const size_t total = first.size() + (second != nullptr ? second->size() : 0);
  if (total <= max_length) return;
  if (truncation.strategy == Truncation::Strategy::longest_first) {
    if (second == nullptr) return cut(first, max_length, truncation);
    const auto [first_length, second_length] = share(first.size(), second->size(), max_length);
    cut(first, first_length, truncation);
    cut(*second, second_length, truncation);
    return;
  }
  const bool cuts_first = truncation.strategy == Truncation::Strategy::only_first;
  check(cuts_first || second != nullptr, ErrorKind::invalid_argument,
        "truncation to {} tokens requires a second text, got one text", max_length);
  Encoding& target = cuts_first ? first : *second;
  const size_t excess = total - max_length;
  check(target.size() > excess, ErrorKind::invalid_argument,
        "truncation to {} tokens must remove {} tokens from the {} text, which has {}", max_length,
        excess, cuts_first ? "first" : "second", target.size());
  cut(target, target.size() - excess, truncation);
}

void pad(std::span<Encoding> encodings, const Padding& padding) {
  size_t length = padding.length.value_or(0);
  if (!padding.length) {
    for (const Encoding& encoding : encodings) length = std::max(length, encoding.size());
  }
  if (padding.multiple_of && *padding.multiple_of > 0 && length % *padding.multiple_of > 0) {
    length += *padding.multiple_of - length % *padding.multiple_of;
  }
  for (Encoding& encoding : encodings) pad_one(encoding, length, padding);
}

}  // namespace lathe::tokenizer
