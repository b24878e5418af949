// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>

#include "import/onnx/operators/ml_trees.h"
#include "tensor/convert.h"

namespace lathe::onnx {
namespace {

constexpr int64_t kMostNodes = std::numeric_limits<int32_t>::max() / 4;
constexpr int64_t kMostFeatures = int64_t{1} << 26;  // a node's integer has 27 bits for it

// Numbers the nodes so that children follow their parents, and the leaves in the file's order.
class TreeOrder {
 public:
  TreeOrder(const NodeImport& c, const FileTrees& trees)
      : c_(c),
        trees_(trees),
        state_(trees.nodes.size(), State::unseen),
        number_(trees.nodes.size(), 0) {
    for (const int64_t root : trees.roots) visit(root);
    std::reverse(order_.begin(), order_.end());
    for (size_t i = 0; i < order_.size(); ++i) {
      number_[static_cast<size_t>(order_[i])] = static_cast<int32_t>(i);
    }
    for (size_t i = 0; i < trees.nodes.size(); ++i) {
      if (trees.nodes[i].is_leaf) number_[i] = ~leaves_++;
    }
  }

  const std::vector<int64_t>& order() const { return order_; }  // of inner nodes
  int32_t number(int64_t node) const { return number_[static_cast<size_t>(node)]; }
  int32_t leaves() const { return leaves_; }

 private:
  enum class State : uint8_t { unseen, open, done };

  // Depth first, without recursion: a tree of a file may be of any depth. An open child closes a
  // cycle; one that is done is shared, which set memberships use.
  void visit(int64_t root) {
    std::vector<int64_t> path{checked(root)};
    while (!path.empty()) {
      const auto at = static_cast<size_t>(path.back());
      const FileTrees::Node& node = trees_.nodes[at];
      if (state_[at] == State::done || node.is_leaf) {
        path.pop_back();
      } else if (state_[at] == State::open) {
        state_[at] = State::done;
        order_.push_back(path.back());
        path.pop_back();
      } else {
        state_[at] = State::open;
        for (const int64_t child : {node.on_false, node.on_true}) {
          const State seen = state_[static_cast<size_t>(checked(child))];
          c_.check(seen != State::open, "tree node {} has child {}, which is above it", at, child);
          if (seen == State::unseen) path.push_back(child);
        }
      }
    }
  }

  int64_t checked(int64_t node) const {
    const auto count = static_cast<int64_t>(trees_.nodes.size());
    c_.check(node >= 0 && node < count, "tree node {} is out of range, there are {}", node, count);
    return node;
  }

  const NodeImport& c_;
  const FileTrees& trees_;
  std::vector<State> state_;
  std::vector<int32_t> number_;
  std::vector<int64_t> order_;
  int32_t leaves_ = 0;
};

Value* int32_literal(NodeImport& c, const std::vector<int32_t>& values, Dims dims) {
  Tensor tensor(ElementType::i32, std::move(dims));
  std::copy(values.begin(), values.end(), tensor.as<int32_t>());
  return c.b.literal(std::move(tensor));
}

Value* number_literal(NodeImport& c, const Numbers& values, ElementType type) {
  return ml_numbers(c, "trees", values, {static_cast<int64_t>(values.size())}, type);
}

}  // namespace

Instruction* add_trees(NodeImport& c, const FileTrees& trees, ElementType type, int64_t targets,
                       std::string_view aggregate) {
  const auto count = static_cast<int64_t>(trees.nodes.size() + trees.votes.size());
  c.check(count <= kMostNodes && !trees.roots.empty(), "{} tree nodes and votes, {} trees", count,
          trees.roots.size());
  const TreeOrder order(c, trees);
  std::vector<int32_t> nodes, roots, vote_targets;
  Numbers splits, weights;
  for (const int64_t at : order.order()) {
    const FileTrees::Node& node = trees.nodes[static_cast<size_t>(at)];
    c.check(node.feature >= 0 && node.feature < kMostFeatures, "tree node {} has feature {}", at,
            node.feature);
    nodes.push_back(static_cast<int32_t>(node.feature) * 16 + (node.missing_is_true ? 8 : 0) +
                    node.mode);
    nodes.push_back(order.number(node.on_true));
    nodes.push_back(order.number(node.on_false));
    splits.push_back(node.split);
  }
  for (const int64_t root : trees.roots) roots.push_back(order.number(root));
  // Votes sorted by leaf, those of one leaf in the file's order; others count nothing.
  std::vector<int32_t> offsets(static_cast<size_t>(order.leaves()) + 1, 0);
  std::vector<const FileTrees::Vote*> sorted;
  for (const FileTrees::Vote& vote : trees.votes) {
    c.check(vote.target >= 0 && vote.target < targets, "a leaf votes for target {} of {}",
            vote.target, targets);
    if (order.number(vote.node) < 0) sorted.push_back(&vote);
  }
  const auto leaf_of = [&](const FileTrees::Vote* vote) { return ~order.number(vote->node); };
  std::sort(sorted.begin(), sorted.end(), [&](const auto* a, const auto* b) {
    return std::pair(leaf_of(a), a) < std::pair(leaf_of(b), b);
  });
  for (const FileTrees::Vote* vote : sorted) {
    ++offsets[static_cast<size_t>(leaf_of(vote)) + 1];
    vote_targets.push_back(static_cast<int32_t>(vote->target));
    weights.push_back(vote->weight);
  }
  for (size_t i = 1; i < offsets.size(); ++i) offsets[i] += offsets[i - 1];
  const auto size = [](const auto& list) { return static_cast<int64_t>(list.size()); };
  Value* packed = int32_literal(c, nodes, {size(splits), 3});
  Value* split = number_literal(c, splits, type);
  Value* root = int32_literal(c, roots, {size(roots)});
  Value* offset = int32_literal(c, offsets, {size(offsets)});
  Value* target = int32_literal(c, vote_targets, {size(vote_targets)});
  Value* weight = number_literal(c, weights, type);
  return c.b.add("tree_ensemble", {ml_matrix(c, type), packed, split, root, offset, target, weight},
                 {{"targets", targets}, {"aggregate", std::string(aggregate)}});
}

}  // namespace lathe::onnx
