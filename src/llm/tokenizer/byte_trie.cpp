// SPDX-License-Identifier: MIT
#include "llm/tokenizer/byte_trie.h"

#include <algorithm>

namespace lathe::tokenizer {

// Level by level: a node stands for a range of the sorted keys and a depth.
ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, uint32_t>> keys) {
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

}  // namespace lathe::tokenizer
