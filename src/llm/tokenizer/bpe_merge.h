// SPDX-License-Identifier: MIT
// The merge loop of byte pair encoding: merges the neighbours of the lowest rank, leftmost first,
// until no merge applies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lathe::tokenizer {

struct BpeSymbol {
  uint32_t id;
  uint32_t begin;  // in the word, in bytes
  uint32_t size;
};

// The merge of two neighbours; rank kNoRank: none.
struct BpeJoin {
  uint32_t rank;
  uint32_t id;
};
inline constexpr uint32_t kNoRank = 0xFFFFFFFF;

// A min-heap with four children per node, which touches half the cache lines of a binary heap.
class BpeHeap {
 public:
  void clear() { entries_.clear(); }
  bool empty() const { return entries_.empty(); }
  // Appends without ordering; requires make() afterwards.
  void append(uint64_t entry) { entries_.push_back(entry); }
  void make() {
    for (size_t i = entries_.size() / 4 + 1; i-- > 0;) {
      if (i < entries_.size()) sink(i, entries_[i]);
    }
  }
  void push(uint64_t entry) {
    size_t at = entries_.size();
    entries_.push_back(entry);
    for (; at > 0 && entries_[(at - 1) / 4] > entry; at = (at - 1) / 4) {
      entries_[at] = entries_[(at - 1) / 4];
    }
    entries_[at] = entry;
  }
  uint64_t pop() {
    const uint64_t top = entries_.front();
    const uint64_t last = entries_.back();
    entries_.pop_back();
    if (!entries_.empty()) sink(0, last);
    return top;
  }

 private:
  void sink(size_t at, uint64_t entry) {
    for (size_t first = 4 * at + 1; first < entries_.size(); first = 4 * at + 1) {
      const size_t end = std::min(first + 4, entries_.size());
      size_t least = first;
      for (size_t i = first + 1; i < end; ++i) {
        if (entries_[i] < entries_[least]) least = i;
      }
      if (entries_[least] >= entry) break;
      entries_[at] = entries_[least];
      at = least;
    }
    entries_[at] = entry;
  }
  std::vector<uint64_t> entries_;
};

// Reusable buffers of the loop.
struct BpeWork {
  std::vector<BpeSymbol> symbols;
  std::vector<BpeJoin> joins;  // the merge of each symbol with the next
  std::vector<uint32_t> next, previous;
  BpeHeap heap;  // by rank, then position; may have stale entries
};

// Words up to this many symbols use a linear search per merge.
inline constexpr size_t kShortWord = 48;

template <class Join>
void merge_short(BpeWork& work, Join&& join) {
  auto& symbols = work.symbols;
  auto& joins = work.joins;
  size_t n = symbols.size();
  joins.resize(n);
  for (size_t i = 0; i + 1 < n; ++i) joins[i] = join(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    uint32_t rank = joins[0].rank;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (joins[i].rank < rank) {
        rank = joins[i].rank;
        best = i;
      }
    }
    if (rank == kNoRank) break;
    symbols[best].id = joins[best].id;
    symbols[best].size += symbols[best + 1].size;
    for (size_t i = best + 1; i + 1 < n; ++i) {
      symbols[i] = symbols[i + 1];
      joins[i] = joins[i + 1];
    }
    --n;
    if (best > 0) joins[best - 1] = join(symbols[best - 1], symbols[best]);
    if (best + 1 < n) joins[best] = join(symbols[best], symbols[best + 1]);
  }
  symbols.resize(n);
}

// O(n log n): each merge adds at most two entries to the heap.
template <class Join>
void merge_long(BpeWork& work, Join&& join) {
  auto& [symbols, joins, next, previous, heap] = work;
  const auto n = static_cast<uint32_t>(symbols.size());
  joins.assign(n, {kNoRank, 0});
  next.resize(n);
  previous.resize(n);
  heap.clear();
  const auto entry = [&](uint32_t at) { return uint64_t{joins[at].rank} << 32 | at; };
  for (uint32_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // wraps for the first
    if (i + 1 < n) joins[i] = join(symbols[i], symbols[i + 1]);
    if (joins[i].rank != kNoRank) heap.append(entry(i));
  }
  heap.make();
  const auto update = [&](uint32_t at) {
    joins[at] = next[at] < n ? join(symbols[at], symbols[next[at]]) : BpeJoin{kNoRank, 0};
    if (joins[at].rank != kNoRank) heap.push(entry(at));
  };
  while (!heap.empty()) {
    const uint64_t top = heap.pop();
    const auto at = static_cast<uint32_t>(top);
    if (symbols[at].size == 0 || joins[at].rank != top >> 32) continue;
    const uint32_t right = next[at];
    symbols[at].id = joins[at].id;
    symbols[at].size += symbols[right].size;
    symbols[right].size = 0;
    next[at] = next[right];
    if (next[at] < n) previous[next[at]] = at;
    update(at);
    if (previous[at] < n) update(previous[at]);
  }
  std::erase_if(symbols, [](const BpeSymbol& symbol) { return symbol.size == 0; });
}

template <class Join>
void merge_symbols(BpeWork& work, Join&& join) {
  if (work.symbols.size() <= kShortWord) {
    merge_short(work, join);
  } else {
    merge_long(work, join);
  }
}

}  // namespace lathe::tokenizer
