// SPDX-License-Identifier: MIT
#include "llm/tokenizer/byte_trie.h"

#include <algorithm>
#include <string>

namespace lathe::tokenizer {
namespace {

constexpr size_t kLongKey = 64;

}  // namespace

// An Aho-Corasick automaton of the reversed keys. After text[at, end) its state is the longest
// key suffix that begins at `at`; the keys that begin there are the valued nodes on its suffix
// chain.
class ByteTrie::Reversed {
 public:
  explicit Reversed(const std::vector<std::pair<std::string_view, uint32_t>>& keys) {
    std::vector<std::string> texts;
    std::vector<std::pair<std::string_view, uint32_t>> reversed;
    texts.reserve(keys.size());
    for (const auto& [key, value] : keys) {
      reversed.emplace_back(texts.emplace_back(key.rbegin(), key.rend()), value);
    }
    trie_.build(std::move(reversed));
    const size_t count = trie_.nodes_.size();
    suffix_.assign(count, 0);
    shorter_.assign(count, kNone);
    depth_.assign(count, 0);
    // Nodes are in breadth-first order, so a node's suffix is complete before its use.
    for (uint32_t node = 0; node < count; ++node) {
      const Node& from = trie_.nodes_[node];
      for (uint32_t edge = from.first_edge; edge < from.first_edge + from.edges; ++edge) {
        const uint32_t to = trie_.targets_[edge];
        depth_[to] = depth_[node] + 1;
        suffix_[to] = node == 0 ? 0 : step(suffix_[node], trie_.labels_[edge]);
        shorter_[to] = valued(suffix_[to]);
      }
    }
  }

  uint32_t step(uint32_t node, uint8_t label) const {
    for (;;) {
      const uint32_t next = trie_.child(trie_.nodes_[node], label);
      if (next != kNone) return next;
      if (node == 0) return 0;
      node = suffix_[node];
    }
  }
  // The node or its nearest suffix that is a key; kNone without one.
  uint32_t valued(uint32_t node) const { return value(node) != kNone ? node : shorter_[node]; }
  uint32_t value(uint32_t node) const { return trie_.nodes_[node].value; }
  uint32_t shorter(uint32_t node) const { return shorter_[node]; }
  uint32_t depth(uint32_t node) const { return depth_[node]; }

 private:
  ByteTrie trie_;
  std::vector<uint32_t> suffix_, shorter_, depth_;
};

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, uint32_t>> keys) {
  const bool is_long =
      std::ranges::any_of(keys, [](const auto& key) { return key.first.size() > kLongKey; });
  if (is_long) reversed_ = std::make_unique<const Reversed>(keys);
  build(std::move(keys));
}

ByteTrie::ByteTrie() = default;
ByteTrie::~ByteTrie() = default;
ByteTrie::ByteTrie(ByteTrie&&) noexcept = default;
ByteTrie& ByteTrie::operator=(ByteTrie&&) noexcept = default;

// Breadth first: a node is a range of the sorted keys at a depth.
void ByteTrie::build(std::vector<std::pair<std::string_view, uint32_t>> keys) {
  std::sort(keys.begin(), keys.end());
  struct Task {
    size_t begin, end;
    uint32_t node;
    size_t depth;
  };
  std::vector<Task> tasks;
  nodes_.emplace_back();
  tasks.push_back({0, keys.size(), 0, 0});
  for (size_t next = 0; next < tasks.size(); ++next) {
    Task task = tasks[next];
    while (task.begin < task.end && keys[task.begin].first.size() == task.depth) {
      if (task.depth > 0) nodes_[task.node].value = keys[task.begin].second;
      ++task.begin;
    }
    nodes_[task.node].first_edge = static_cast<uint32_t>(labels_.size());
    for (size_t begin = task.begin; begin < task.end;) {
      const char label = keys[begin].first[task.depth];
      size_t end = begin;
      while (end < task.end && keys[end].first[task.depth] == label) ++end;
      const auto node = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      labels_.push_back(static_cast<uint8_t>(label));
      targets_.push_back(node);
      ++nodes_[task.node].edges;
      if (task.depth == 0) root_[static_cast<uint8_t>(label)] = node;
      tasks.push_back({begin, end, node, task.depth + 1});
      begin = end;
    }
  }
}

KeyFinder::KeyFinder(const ByteTrie& trie, std::string_view text) : trie_(trie), text_(text) {
  if (trie.reversed_ == nullptr || text.empty()) return;
  found_.resize(text.size());
  uint32_t node = 0;
  for (size_t at = text.size(); at-- > 0;) {
    node = trie.reversed_->step(node, static_cast<uint8_t>(text[at]));
    found_[at] = trie.reversed_->valued(node);
  }
}

KeyFinder::Key KeyFinder::found(size_t at) const {
  const uint32_t node = at < found_.size() ? found_[at] : kNone;
  if (node == kNone) return {};
  return {trie_.reversed_->depth(node), trie_.reversed_->value(node), node};
}

KeyFinder::Key KeyFinder::shorter(const Key& key) const {
  const uint32_t node = trie_.reversed_->shorter(key.node);
  if (node == kNone) return {};
  return {trie_.reversed_->depth(node), trie_.reversed_->value(node), node};
}

}  // namespace lathe::tokenizer
