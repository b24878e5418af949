// SPDX-License-Identifier: MIT
// A set of byte strings, to find those that begin at an offset of a text.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe::tokenizer {

class ByteTrie {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  ByteTrie();
  // The highest value of equal keys counts. Empty keys are ignored.
  explicit ByteTrie(std::vector<std::pair<std::string_view, uint32_t>> keys);
  ~ByteTrie();
  ByteTrie(ByteTrie&&) noexcept;
  ByteTrie& operator=(ByteTrie&&) noexcept;

  bool empty() const { return nodes_.empty(); }
  // True if a key begins with `byte`.
  bool may_begin(char byte) const { return root_[static_cast<uint8_t>(byte)] != kNone; }

 private:
  friend class KeyFinder;
  class Reversed;
  // A node's edges are in labels_ and targets_ from first_edge on, sorted by label.
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edges = 0;
    uint32_t value = kNone;
  };
  void build(std::vector<std::pair<std::string_view, uint32_t>> keys);
  uint32_t child(const Node& node, uint8_t label) const {
    size_t low = node.first_edge;
    size_t count = node.edges;
    while (count > 4) {
      const size_t half = count / 2;
      if (labels_[low + half] <= label) {
        low += half;
        count -= half;
      } else {
        count = half;
      }
    }
    for (size_t i = low; i < low + count; ++i) {
      if (labels_[i] == label) return targets_[i];
    }
    return kNone;
  }

  std::vector<Node> nodes_;
  std::vector<uint8_t> labels_;
  std::vector<uint32_t> targets_;
  std::array<uint32_t, 256> root_ = [] {
    std::array<uint32_t, 256> none{};
    none.fill(kNone);
    return none;
  }();
  std::unique_ptr<const Reversed> reversed_;  // null without long keys
};

// Finds the keys that begin at offsets of one text. Short keys are searched at each offset. For
// keys above a few dozen bytes, one backward pass of an Aho-Corasick automaton of the reversed keys
// finds all offsets, in linear time. The trie and the text must outlive it.
class KeyFinder {
 public:
  KeyFinder(const ByteTrie& trie, std::string_view text);

  // Calls visit(length, value) for every key that begins at `at`, in any order.
  template <class F>
  void visit(size_t at, F&& visit) const {
    if (!found_.empty()) {
      for (Key key = found(at); key.length > 0; key = shorter(key)) visit(key.length, key.value);
      return;
    }
    uint32_t node = at < text_.size() ? trie_.root_[static_cast<uint8_t>(text_[at])] : kNone;
    for (size_t i = at + 1; node != kNone; ++i) {
      if (trie_.nodes_[node].value != kNone) visit(i - at, trie_.nodes_[node].value);
      if (i >= text_.size()) return;
      node = trie_.child(trie_.nodes_[node], static_cast<uint8_t>(text_[i]));
    }
  }
  // Length and value of the longest key; length 0 without a match.
  std::pair<size_t, uint32_t> longest(size_t at) const {
    std::pair<size_t, uint32_t> best{0, kNone};
    visit(at, [&](size_t length, uint32_t value) {
      if (length > best.first) best = {length, value};
    });
    return best;
  }

 private:
  static constexpr uint32_t kNone = ByteTrie::kNone;
  struct Key {
    size_t length = 0;
    uint32_t value = kNone;
    uint32_t node = kNone;
  };
  Key found(size_t at) const;
  Key shorter(const Key& key) const;

  const ByteTrie& trie_;
  std::string_view text_;
  std::vector<uint32_t> found_;  // by offset: node of the longest key; only with long keys
};

}  // namespace lathe::tokenizer
