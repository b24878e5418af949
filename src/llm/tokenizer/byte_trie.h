// SPDX-License-Identifier: MIT
// A set of byte strings, for finding those that a text begins with.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace lathe::tokenizer {

class ByteTrie {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  ByteTrie() = default;
  // Of equal keys the highest value counts. Empty keys are left out.
  explicit ByteTrie(std::vector<std::pair<std::string_view, uint32_t>> keys);

  bool empty() const { return nodes_.empty(); }
  // Whether any key begins with `byte`.
  bool may_begin(char byte) const { return root_[static_cast<uint8_t>(byte)] != kNone; }

  // Calls visit(length, value) for every key that text[at, end) begins with, the shortest first.
  template <class F>
  void prefixes(std::string_view text, size_t at, F&& visit) const {
    uint32_t node = at < text.size() ? root_[static_cast<uint8_t>(text[at])] : kNone;
    for (size_t i = at + 1; node != kNone; ++i) {
      if (nodes_[node].value != kNone) visit(i - at, nodes_[node].value);
      if (i >= text.size()) return;
      node = child(nodes_[node], static_cast<uint8_t>(text[i]));
    }
  }
  // The longest of them: length and value; length 0 if there is none.
  std::pair<size_t, uint32_t> longest(std::string_view text, size_t at) const {
    std::pair<size_t, uint32_t> found{0, kNone};
    prefixes(text, at, [&](size_t length, uint32_t value) { found = {length, value}; });
    return found;
  }

 private:
  // The edges of a node are those of labels_ and targets_ from first_edge on, by label.
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edges = 0;
    uint32_t value = kNone;
  };
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
};

}  // namespace lathe::tokenizer
