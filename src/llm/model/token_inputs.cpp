// SPDX-License-Identifier: MIT
#include "llm/model/token_inputs.h"

#include <algorithm>

#include "llm/model/checksum.h"

namespace lathe::llm {

Token Embeddings::token(int64_t index) const {
  // SplitMix64 finaliser (Steele et al. 2014): neighbouring indices differ in all bits.
  uint64_t mixed = hash + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(index + 1);
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
  mixed ^= mixed >> 31;
  return -1 - static_cast<Token>(mixed >> 33);
}

Embeddings make_embeddings(Tensor values) {
  const Tensor dense = values.dense();
  std::vector<uint64_t> parts = {static_cast<uint64_t>(dense.type())};
  for (const int64_t extent : dense.dims()) parts.push_back(static_cast<uint64_t>(extent));
  parts.push_back(checksum({dense.as<const std::byte>(), static_cast<size_t>(dense.byte_size())}));
  return {std::move(values), checksum(std::as_bytes(std::span(parts)))};
}

std::vector<EmbeddedTokens> cut_embedded(std::span<const EmbeddedTokens> all, int64_t from,
                                         int64_t to) {
  std::vector<EmbeddedTokens> part;
  for (const EmbeddedTokens& own : all) {
    const int64_t begin = std::max(own.begin, from);
    const int64_t end = std::min(own.end(), to);
    if (begin >= end) continue;
    const Tensor& values = own.embeddings.values;
    const int64_t skipped = (begin - own.begin) * values.strides()[0];
    auto* data = values.as<std::byte>() + skipped * info(values.type()).bits / 8;
    part.push_back({begin - from,
                    {Tensor(values.type(), {end - begin, values.dims()[1]}, values.strides(), data,
                            values.owner()),
                     own.embeddings.hash}});
  }
  return part;
}

int64_t same_embedded(std::span<const EmbeddedTokens> a, std::span<const EmbeddedTokens> b,
                      int64_t length) {
  size_t i = 0;
  for (; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].begin != b[i].begin || a[i].embeddings.hash != b[i].embeddings.hash) break;
    // A rewind may have cut one of them.
    if (a[i].end() != b[i].end()) return std::min({length, a[i].end(), b[i].end()});
  }
  if (i < a.size()) length = std::min(length, a[i].begin);
  if (i < b.size()) length = std::min(length, b[i].begin);
  return length;
}

int64_t Positions::Run::at(int64_t axis, int64_t token) const {
  return values[static_cast<size_t>((axes() == 1 ? 0 : axis * count) + token - begin)];
}

int64_t Positions::next(int64_t length) const {
  return runs_.empty() ? length : runs_.back().next + length - runs_.back().end();
}

void Positions::add(int64_t begin, int64_t tokens, std::span<const int64_t> values) {
  if (tokens == 0) return;
  const int64_t largest = *std::ranges::max_element(values);
  runs_.push_back(
      {begin, tokens, {values.begin(), values.end()}, std::max(next(begin), largest + 1)});
}

void Positions::truncate(int64_t length) {
  while (!runs_.empty() && runs_.back().begin >= length) runs_.pop_back();
  if (runs_.empty() || runs_.back().end() <= length) return;
  const Run cut = std::move(runs_.back());
  runs_.pop_back();
  std::vector<int64_t> values;
  for (int64_t axis = 0; axis < cut.axes(); ++axis) {
    for (int64_t token = cut.begin; token < length; ++token) values.push_back(cut.at(axis, token));
  }
  add(cut.begin, length - cut.begin, values);
}

std::vector<int64_t> Positions::read(int64_t begin, int64_t tokens) const {
  const int64_t end = begin + tokens;
  int64_t axes = 0;
  for (const Run& run : runs_) {
    if (run.begin < end && run.end() > begin) axes = std::max(axes, run.axes());
  }
  std::vector<int64_t> values(static_cast<size_t>(axes * tokens));
  for (int64_t axis = 0; axis < axes; ++axis) {
    auto run = runs_.begin();
    for (int64_t token = begin; token < end; ++token) {
      while (run != runs_.end() && run->end() <= token) ++run;
      int64_t& value = values[static_cast<size_t>(axis * tokens + token - begin)];
      if (run != runs_.end() && run->begin <= token) {
        value = run->at(axis, token);
      } else if (run == runs_.begin()) {
        value = token;
      } else {
        value = std::prev(run)->next + token - std::prev(run)->end();
      }
    }
  }
  return values;
}

int64_t Positions::same(const Positions& other, int64_t length) const {
  const std::vector<int64_t> mine = read(0, length);
  const std::vector<int64_t> theirs = other.read(0, length);
  const auto at = [&](const std::vector<int64_t>& values, int64_t axis, int64_t token) {
    if (values.empty()) return token;
    return values[static_cast<size_t>((std::ssize(values) > length ? axis * length : 0) + token)];
  };
  for (int64_t token = 0; token < length && !(mine.empty() && theirs.empty()); ++token) {
    for (int64_t axis = 0; axis < 3; ++axis) {
      if (at(mine, axis, token) != at(theirs, axis, token)) return token;
    }
  }
  return length;
}

}  // namespace lathe::llm
