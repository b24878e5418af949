// SPDX-License-Identifier: MIT
// Tree ensembles of ai.onnx.ml in the canonical form of the op tree_ensemble.
#pragma once

#include "import/onnx/operators/ml.h"

namespace lathe::onnx {

// Trees as a file has them: nodes by index, children and roots as indices of nodes.
struct FileTrees {
  struct Node {
    bool is_leaf = false;
    int32_t mode = 0;  // BRANCH_LEQ, LT, GTE, GT, EQ, NEQ
    bool missing_is_true = false;
    int64_t feature = 0;
    double split = 0;
    int64_t on_true = 0;
    int64_t on_false = 0;
  };
  struct Vote {
    int64_t node = 0;  // a leaf
    int64_t target = 0;
    double weight = 0;
  };
  std::vector<Node> nodes;
  std::vector<int64_t> roots;
  std::vector<Vote> votes;
};

// Scores [n, targets] and whether a leaf voted for a target. InvalidModel if trees have cycles or
// indices out of range.
Instruction* add_trees(NodeImport& c, const FileTrees& trees, ElementType type, int64_t targets,
                       std::string_view aggregate);

}  // namespace lathe::onnx
