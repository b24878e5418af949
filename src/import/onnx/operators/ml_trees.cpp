// SPDX-License-Identifier: MIT
#include "import/onnx/operators/ml_trees.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "import/onnx/tensor_proto.h"
#include "tensor/convert.h"

namespace lathe::onnx {
namespace {

constexpr std::array<std::string_view, 6> kModes{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                                 "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};
constexpr int32_t kEqualMode = 4;
constexpr int64_t kMembership = 6;

// The numbers of a floating point tensor attribute; empty if absent.
Numbers tensor_numbers(NodeImport& c, std::string_view name) {
  if (!c.has_attribute(name)) return {};
  const Tensor tensor = to_tensor(c.tensor(name));
  c.check(tensor.type() != ElementType::string, "{} is {}, expected numbers", name,
          to_string(tensor.type(), tensor.dims()));
  Numbers out(static_cast<size_t>(tensor.count()));
  convert(ElementType::f64, out.data(), tensor.type(), tensor.data(), tensor.count());
  return out;
}

// A list of floats, or of doubles as a tensor.
struct NumberListNames {
  std::string_view list, tensor;
};
constexpr NumberListNames kSplitNames{"nodes_values", "nodes_values_as_tensor"};
constexpr NumberListNames kBaseNames{"base_values", "base_values_as_tensor"};

Numbers list_or_tensor(NodeImport& c, const NumberListNames& names) {
  const Numbers list = c.numbers(names.list, Numbers{});
  const Numbers tensor = tensor_numbers(c, names.tensor);
  c.check(list.empty() || tensor.empty(), "{} has {} elements and {} {}", names.list, list.size(),
          names.tensor, tensor.size());
  return list.empty() ? tensor : list;
}

// Attributes of the leaves' votes; the names outlive the import.
struct VoteNames {
  std::string_view tree, node, target;
  NumberListNames weight;
};
constexpr VoteNames kTargetVotes{"target_treeids",
                                 "target_nodeids",
                                 "target_ids",
                                 {"target_weights", "target_weights_as_tensor"}};
constexpr VoteNames kClassVotes{
    "class_treeids", "class_nodeids", "class_ids", {"class_weights", "class_weights_as_tensor"}};

void check_list_size(const NodeImport& c, std::string_view name, size_t size, size_t expected) {
  c.check(size == expected, "{} has {} elements, expected {}", name, size, expected);
}

using NodeIds = std::map<std::pair<int64_t, int64_t>, int64_t>;  // tree and node id to index

// Versions 1 and 3: nodes bear a tree's and their own id; the first node of a tree is its root.
FileTrees trees_by_id(NodeImport& c, const VoteNames& vote) {
  const Integers tree = c.integers("nodes_treeids", Integers{});
  const Integers id = c.integers("nodes_nodeids", Integers{});
  const Integers feature = c.integers("nodes_featureids", Integers{});
  const Integers on_true = c.integers("nodes_truenodeids", Integers{});
  const Integers on_false = c.integers("nodes_falsenodeids", Integers{});
  const Integers missing = c.integers("nodes_missing_value_tracks_true", Integers{});
  const Texts mode = c.texts("nodes_modes", Texts{});
  const Numbers split = list_or_tensor(c, kSplitNames);
  c.ignore({"nodes_hitrates", "nodes_hitrates_as_tensor"});
  const size_t count = tree.size();
  check_list_size(c, "nodes_nodeids", id.size(), count);
  check_list_size(c, "nodes_featureids", feature.size(), count);
  check_list_size(c, "nodes_truenodeids", on_true.size(), count);
  check_list_size(c, "nodes_falsenodeids", on_false.size(), count);
  check_list_size(c, "nodes_modes", mode.size(), count);
  check_list_size(c, "nodes_values", split.size(), count);
  if (!missing.empty())
    check_list_size(c, "nodes_missing_value_tracks_true", missing.size(), count);
  FileTrees trees;
  NodeIds ids;
  std::set<int64_t> known;
  for (size_t i = 0; i < count; ++i) {
    const bool is_new = ids.emplace(std::pair(tree[i], id[i]), static_cast<int64_t>(i)).second;
    c.check(is_new, "tree {} has two nodes {}", tree[i], id[i]);
    if (known.insert(tree[i]).second) trees.roots.push_back(static_cast<int64_t>(i));
  }
  const auto find = [&](int64_t of_tree, int64_t node) {
    const auto found = ids.find({of_tree, node});
    c.check(found != ids.end(), "tree {} has no node {}", of_tree, node);
    return found->second;
  };
  for (size_t i = 0; i < count; ++i) {
    FileTrees::Node node;
    node.is_leaf = mode[i] == "LEAF";
    if (!node.is_leaf) {
      const auto at = std::find(kModes.begin(), kModes.end(), mode[i]);
      c.check(at != kModes.end(), "nodes_modes has '{}'", escape(mode[i]));
      node = {false,
              static_cast<int32_t>(at - kModes.begin()),
              !missing.empty() && missing[i] != 0,
              feature[i],
              split[i],
              find(tree[i], on_true[i]),
              find(tree[i], on_false[i])};
    }
    trees.nodes.push_back(node);
  }
  const Integers vote_tree = c.integers(vote.tree, Integers{});
  const Integers vote_node = c.integers(vote.node, Integers{});
  const Integers target = c.integers(vote.target, Integers{});
  const Numbers weight = list_or_tensor(c, vote.weight);
  check_list_size(c, vote.tree, vote_tree.size(), target.size());
  check_list_size(c, vote.node, vote_node.size(), target.size());
  check_list_size(c, vote.weight.list, weight.size(), target.size());
  for (size_t i = 0; i < target.size(); ++i) {
    trees.votes.push_back({find(vote_tree[i], vote_node[i]), target[i], weight[i]});
  }
  return trees;
}

// Doubles in the file compute in f64, as do doubles in x.
ElementType tree_type(NodeImport& c, std::initializer_list<std::string_view> tensors) {
  ElementType type = ml_float_type(c);
  for (const std::string_view name : tensors) {
    if (c.has_attribute(name) && c.tensor(name).type == ElementType::f64) type = ElementType::f64;
  }
  return type;
}

Value* add_base(NodeImport& c, Value* scores, const Numbers& base) {
  const Dims dims{static_cast<int64_t>(base.size())};
  return c.b("add", {scores, ml_numbers(c, "base_values", base, dims, scores->type().element)});
}

// A classifier of two classes whose leaves all vote for one of them.
void classify_by_one(NodeImport& c, const Labels& labels, const FileTrees& trees, Value* scores,
                     Numbers base, std::string_view transform) {
  const bool is_positive = std::all_of(trees.votes.begin(), trees.votes.end(),
                                       [](const auto& vote) { return vote.weight >= 0; });
  const bool votes_second = !trees.votes.empty() && trees.votes.front().target == 1;
  const bool is_single = !votes_second && base.size() < 2;
  if (base.size() == 1) base.push_back(0);
  if (!base.empty()) scores = add_base(c, scores, base);
  const int64_t column = votes_second ? 1 : 0;
  Value* score =
      c.b("slice", {scores, c.b.integers({column}), c.b.integers({column + 1}), c.b.integers({1})});
  c.out(0, ml_label_above(c, labels, score, is_positive ? 0.5 : 0.0));
  Value* both = is_single ? ml_two_classes(c, score, transform, is_positive)
                          : ml_transformed(c, scores, transform, 2);
  c.out(1, c.b.cast(both, ElementType::f32));
}

}  // namespace

void import_tree_ensemble_regressor(NodeImport& c) {
  const int64_t targets = c.integer("n_targets", 0);
  const std::string_view aggregate = c.text("aggregate_function", "SUM");
  const std::string_view transform = ml_transform(c);
  const ElementType type =
      tree_type(c, {"nodes_values_as_tensor", "target_weights_as_tensor", "base_values_as_tensor"});
  const FileTrees trees = trees_by_id(c, kTargetVotes);
  const Numbers base = list_or_tensor(c, kBaseNames);
  Value* scores = add_trees(c, trees, type, targets, aggregate)->result(0);
  c.check(base.empty() || std::ssize(base) == targets, "{} base values for {} targets", base.size(),
          targets);
  if (!base.empty()) scores = add_base(c, scores, base);
  c.out(0, c.b.cast(ml_transformed(c, scores, transform, targets), ElementType::f32));
}

void import_tree_ensemble_classifier(NodeImport& c) {
  const Labels labels = ml_labels(c, "classlabels_int64s", "classlabels_strings");
  const std::string_view transform = ml_transform(c);
  const ElementType type =
      tree_type(c, {kSplitNames.tensor, kClassVotes.weight.tensor, kBaseNames.tensor});
  const FileTrees trees = trees_by_id(c, kClassVotes);
  Numbers base = list_or_tensor(c, kBaseNames);
  c.check(
      base.empty() || std::ssize(base) == labels.count || (base.size() == 1 && labels.count == 2),
      "{} base values for {} class labels", base.size(), labels.count);
  Instruction* ensemble = add_trees(c, trees, type, labels.count, "SUM");
  Value* scores = ensemble->result(0);
  const bool by_one = std::all_of(trees.votes.begin(), trees.votes.end(), [&](const auto& vote) {
    return vote.target == trees.votes.front().target;
  });
  if (labels.count == 2 && by_one) {
    return classify_by_one(c, labels, trees, scores, base, transform);
  }
  // Without base values the top class is one that got a vote.
  Value* choice = scores;
  if (base.empty()) {
    choice = c.b("where", {ensemble->result(1), scores, c.b.scalar(type, -INFINITY)});
  } else {
    if (base.size() < static_cast<size_t>(labels.count)) base.push_back(0);
    choice = scores = add_base(c, scores, base);
  }
  c.out(0, ml_top_label(c, labels, choice));
  c.out(1, c.b.cast(ml_transformed(c, scores, transform, labels.count), ElementType::f32));
}

namespace {

// Version 5: a test of membership becomes a chain of comparisons that share their true child.
FileTrees trees_by_index(NodeImport& c) {
  const Integers feature = c.integers("nodes_featureids");
  const Integers on_true = c.integers("nodes_truenodeids");
  const Integers on_false = c.integers("nodes_falsenodeids");
  const Integers true_leaf = c.integers("nodes_trueleafs");
  const Integers false_leaf = c.integers("nodes_falseleafs");
  const Integers missing = c.integers("nodes_missing_value_tracks_true", Integers{});
  const Integers target = c.integers("leaf_targetids");
  const Numbers mode = tensor_numbers(c, "nodes_modes");
  const Numbers split = tensor_numbers(c, "nodes_splits");
  const Numbers weight = tensor_numbers(c, "leaf_weights");
  const Numbers members = tensor_numbers(c, "membership_values");
  c.ignore({"nodes_hitrates"});
  const size_t count = feature.size();
  check_list_size(c, "nodes_truenodeids", on_true.size(), count);
  check_list_size(c, "nodes_falsenodeids", on_false.size(), count);
  check_list_size(c, "nodes_trueleafs", true_leaf.size(), count);
  check_list_size(c, "nodes_falseleafs", false_leaf.size(), count);
  check_list_size(c, "nodes_modes", mode.size(), count);
  check_list_size(c, "nodes_splits", split.size(), count);
  check_list_size(c, "leaf_weights", weight.size(), target.size());
  if (!missing.empty())
    check_list_size(c, "nodes_missing_value_tracks_true", missing.size(), count);
  FileTrees trees;
  trees.nodes.resize(count + target.size());  // the leaves after the nodes
  const auto child = [&](int64_t at, int64_t is_leaf) {
    const size_t most = is_leaf != 0 ? target.size() : count;
    c.check(at >= 0 && at < static_cast<int64_t>(most), "child {} is out of range, there are {}",
            at, most);
    return at + (is_leaf != 0 ? static_cast<int64_t>(count) : 0);
  };
  size_t member = 0;
  for (size_t i = 0; i < count; ++i) {
    c.check(mode[i] >= 0 && mode[i] <= kMembership, "nodes_modes has {}, expected 0 to 6", mode[i]);
    FileTrees::Node node{
        false,    static_cast<int32_t>(mode[i]),   !missing.empty() && missing[i] != 0, feature[i],
        split[i], child(on_true[i], true_leaf[i]), child(on_false[i], false_leaf[i])};
    if (mode[i] == kMembership) {
      const auto end = std::find_if(members.begin() + static_cast<std::ptrdiff_t>(member),
                                    members.end(), [](double value) { return std::isnan(value); });
      const auto last = static_cast<size_t>(end - members.begin());
      node.mode = kEqualMode;
      node.split = member < last ? members[member] : NAN;  // an empty set
      FileTrees::Node next = node;
      size_t previous = i;
      trees.nodes[i] = node;
      for (size_t k = member + 1; k < last; ++k) {
        next.split = members[k];
        trees.nodes[previous].on_false = static_cast<int64_t>(trees.nodes.size());
        previous = trees.nodes.size();
        trees.nodes.push_back(next);
      }
      member = std::min(last + 1, members.size());
    } else {
      trees.nodes[i] = node;
    }
  }
  for (size_t i = 0; i < target.size(); ++i) {
    trees.nodes[count + i].is_leaf = true;
    trees.votes.push_back({static_cast<int64_t>(count + i), target[i], weight[i]});
  }
  trees.roots = c.integers("tree_roots");
  for (const int64_t root : trees.roots) child(root, 0);
  return trees;
}

template <size_t N>
std::string_view choice(NodeImport& c, std::string_view name, int64_t fallback,
                        const std::array<std::string_view, N>& names) {
  const int64_t value = c.integer(name, fallback);
  c.check(value >= 0 && value < static_cast<int64_t>(N), "{} is {}, expected 0 to {}", name, value,
          N - 1);
  return names[static_cast<size_t>(value)];
}

}  // namespace

void import_tree_ensemble(NodeImport& c) {
  const ElementType given = c.element(0);
  const int64_t targets = c.integer("n_targets", 0);
  const std::string_view aggregate =
      choice<4>(c, "aggregate_function", 1, {"AVERAGE", "SUM", "MIN", "MAX"});
  const std::string_view transform =
      choice<5>(c, "post_transform", 0, {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"});
  const ElementType type = tree_type(c, {"nodes_splits", "leaf_weights"});
  Value* scores = add_trees(c, trees_by_index(c), type, targets, aggregate)->result(0);
  c.out(0, c.b.cast(ml_transformed(c, scores, transform, targets), given));
}

}  // namespace lathe::onnx
