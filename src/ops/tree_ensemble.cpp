// SPDX-License-Identifier: MIT
// Canonical form: a child comes after its node, and a negative child n is leaf ~n.
#include <algorithm>

#include "base/thread_pool.h"
#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

constexpr int kTreeOperands = 7;
enum TreeOperand : int { kFeatures, kNodes, kSplits, kRoots, kLeaves, kTargets, kWeights };
// A node's first integer: comparison (bits 0 to 2), kMissingIsTrue (bit 3), feature (above).
enum Comparison : int32_t { kLessEqual, kLess, kGreaterEqual, kGreater, kEqual, kNotEqual };
constexpr int32_t kMissingIsTrue = 8;
constexpr int kFeatureShift = 4;

struct TreeNode {
  int32_t feature_and_mode, on_true, on_false;
};
static_assert(sizeof(TreeNode) == 3 * sizeof(int32_t));

template <class T>
struct Trees {
  const TreeNode* nodes;
  const T* splits;
  std::span<const int32_t> roots;
  const int32_t* leaves;  // leaf i has votes [leaves[i], leaves[i + 1])
  const int32_t* targets;
  const T* weights;
};

// Checks that every walk ends at a leaf and every index is in range. Returns the number of features
// that x requires.
template <class Context>
int64_t check_trees(const Context& c, const TensorView* operands, int64_t targets) {
  const auto size = [&](int i) { return operands[i].rank == 0 ? 0 : operands[i].dims[0]; };
  const auto* nodes = operands[kNodes].as<TreeNode>();
  const int64_t leaves = size(kLeaves) - 1;
  int64_t features = 0;
  c.check(size(kSplits) == size(kNodes) && size(kTargets) == size(kWeights) && leaves >= 0,
          "{} nodes with {} splits, {} targets with {} weights, {} leaf offsets", size(kNodes),
          size(kSplits), size(kTargets), size(kWeights), leaves + 1);
  const auto check_child = [&](int64_t child, int64_t after) {
    c.check(child < 0 ? ~child < leaves : child > after && child < size(kNodes),
            "node {} has child {}, expected a later one of {} nodes or one of {} leaves", after,
            child, size(kNodes), leaves);
  };
  for (int64_t i = 0; i < size(kNodes); ++i) {
    check_child(nodes[i].on_true, i);
    check_child(nodes[i].on_false, i);
    c.check(nodes[i].feature_and_mode >= 0 && (nodes[i].feature_and_mode & 7) <= kNotEqual,
            "node {} has mode {}, expected >= 0 with low three bits 0 to 5", i,
            nodes[i].feature_and_mode);
    features = std::max<int64_t>(features, (nodes[i].feature_and_mode >> kFeatureShift) + 1);
  }
  for (int64_t i = 0; i < size(kRoots); ++i) check_child(operands[kRoots].as<int32_t>()[i], -1);
  for (int64_t i = 0; i < leaves; ++i) {
    const int32_t* offset = operands[kLeaves].as<int32_t>() + i;
    c.check(offset[0] >= 0 && offset[0] <= offset[1] && offset[1] <= size(kTargets),
            "leaf {} has votes {} to {}, expected an ascending range within 0 to {}", i, offset[0],
            offset[1], size(kTargets));
  }
  for (int64_t i = 0; i < size(kTargets); ++i) {
    const int32_t target = operands[kTargets].as<int32_t>()[i];
    c.check(target >= 0 && target < targets,
            "vote {} is for target {}, expected >= 0 and less than {}", i, target, targets);
  }
  return features;
}

void infer_tree_ensemble(Infer& c) {
  const int64_t targets = require_integer(c, "targets", 1, int64_t{1} << 20);
  require_choice(c, "aggregate", {"SUM", "AVERAGE", "MIN", "MAX"});
  require_ranks(c, {2, 2, 1, 1, 1, 1, 1});
  c.require_equal(c.dim(kNodes, 1), 3, "integers per node");
  TensorView views[kTreeOperands];
  bool known = true;
  for (int i = kNodes; i < kTreeOperands; ++i) {
    const Tensor* literal = c.literal(i);
    known = known && literal != nullptr && literal->is_dense() && literal->is_aligned();
    if (known) views[i] = literal->view();
  }
  if (known) {
    c.require_less_equal(check_trees(c, views, targets), c.dim(kFeatures, 1), "features of x");
  }
  c.result(c.element(kFeatures), {c.dim(kFeatures, 0), targets});
  c.result(ElementType::boolean, {c.dim(kFeatures, 0), targets});
}

template <class T>
bool takes_true(int32_t mode, T value, T split) {
  if (value != value) return (mode & kMissingIsTrue) != 0 || (mode & 7) == kNotEqual;
  switch (mode & 7) {
    case kLessEqual:
      return value <= split;
    case kLess:
      return value < split;
    case kGreaterEqual:
      return value >= split;
    case kGreater:
      return value > split;
    case kEqual:
      return value == split;
    default:
      return value != split;
  }
}

// The leaf that a row of x reaches.
template <class T>
int32_t find_leaf(const Trees<T>& trees, int32_t at, const T* x) {
  while (at >= 0) {
    const TreeNode& node = trees.nodes[at];
    const T value = x[node.feature_and_mode >> kFeatureShift];
    const int32_t mode = node.feature_and_mode & 15;
    const bool is_true =
        mode == kLessEqual ? value <= trees.splits[at] : takes_true(mode, value, trees.splits[at]);
    at = is_true ? node.on_true : node.on_false;
  }
  return ~at;
}

// A chunk of rows stays in L1 while each tree is read once.
template <class T>
void walk_trees(const Evaluation& c, const Trees<T>& trees, const TensorView& x, T* scores,
                uint8_t* voted) {
  const int64_t targets = c.integer("targets");
  const std::string& by = c.text("aggregate");
  const int sign = by == "MIN" ? -1 : by == "MAX" ? 1 : 0;
  parallel_for(c.pool, x.dims[0], 32, [&](int64_t begin, int64_t end) {
    for (const int32_t root : trees.roots) {
      for (int64_t row = begin; row < end; ++row) {
        const int32_t leaf = find_leaf(trees, root, x.as<T>() + row * x.dims[1]);
        for (int32_t vote = trees.leaves[leaf]; vote < trees.leaves[leaf + 1]; ++vote) {
          const int64_t at = row * targets + trees.targets[vote];
          const T weight = trees.weights[vote];
          const bool is_better =
              !voted[at] || (sign < 0 ? weight < scores[at] : weight > scores[at]);
          if (sign == 0) scores[at] += weight;
          if (sign != 0 && is_better) scores[at] = weight;
          voted[at] = 1;
        }
      }
    }
    if (by != "AVERAGE") return;
    for (int64_t i = begin * targets; i < end * targets; ++i) {
      scores[i] /= static_cast<T>(trees.roots.size());
    }
  });
}

void eval_tree_ensemble(Evaluation& c) {
  std::vector<DenseOperand> dense;
  TensorView views[kTreeOperands];
  bool known = true;
  for (int i = 0; i < kTreeOperands; ++i) {
    dense.emplace_back(c.in(i),
                       i == kSplits || i == kWeights ? c.in(kFeatures).type : c.in(i).type);
    views[i] = dense.back().view();
    const Instruction* source = c.instruction().operands()[static_cast<size_t>(i)]->definition();
    known = known && (i == kFeatures || (source != nullptr && source->literal() != nullptr));
  }
  const int64_t targets = c.integer("targets");
  // Inference has checked literals.
  if (!known) {
    const int64_t features = check_trees(c, views, targets);
    c.check(features <= views[kFeatures].dims[1], "x has {} features, nodes use {}",
            views[kFeatures].dims[1], features);
  }
  const Tensor scores(views[kFeatures].type, {views[kFeatures].dims[0], targets});
  const Tensor voted(ElementType::boolean, scores.dims());
  with_float_type(views[kFeatures].type, [&]<class T>(T*) {
    const Trees<T> trees{views[kNodes].as<TreeNode>(),
                         views[kSplits].as<T>(),
                         {views[kRoots].as<int32_t>(), static_cast<size_t>(views[kRoots].dims[0])},
                         views[kLeaves].as<int32_t>(),
                         views[kTargets].as<int32_t>(),
                         views[kWeights].as<T>()};
    walk_trees(c, trees, views[kFeatures], scores.as<T>(), voted.as<uint8_t>());
  });
  store_tensor(scores, c.out(0, scores.dims()));
  store_tensor(voted, c.out(1, scores.dims()));
}

constexpr TypeSet kFloat32Or64 = types(ElementType::f32, ElementType::f64);
constexpr TypeSet kInt32 = types(ElementType::i32);

}  // namespace

static const Register tree_ensemble{{
    .name = "tree_ensemble",
    .doc = "Aggregated votes per target of the leaves that each row of x reaches, and whether a "
           "target got a vote. A node is [16 * feature + mode, true child, false child].",
    .operands = {{"x", kFloat32Or64, Arity::one, 'T'},
                 {"nodes", kInt32},
                 {"splits", kFloat32Or64, Arity::one, 'T'},
                 {"roots", kInt32},
                 {"leaves", kInt32},
                 {"vote_targets", kInt32},
                 {"weights", kFloat32Or64, Arity::one, 'T'}},
    .attributes = {{"targets", AttributeKind::integer}, {"aggregate", "SUM"}},
    .results = 2,
    .infer = infer_tree_ensemble,
    .eval = eval_tree_ensemble,
}};

}  // namespace lathe
