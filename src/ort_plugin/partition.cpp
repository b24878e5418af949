// SPDX-License-Identifier: MIT
#include "ort_plugin/partition.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "import/onnx/node_support.h"

namespace lathe::ort_plugin {
namespace {

using onnx::Graph;
using onnx::Node;
using onnx::ValueType;
using Names = std::vector<std::string_view>;

constexpr int kNone = -1;

// The producer and the readers of each value.
class Edges {
 public:
  explicit Edges(const Graph& graph) : reads_(graph.nodes.size()), users_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::string_view name : graph.nodes[i].outputs) {
        if (!name.empty()) producers_[name] = i;
      }
    }
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const std::string_view name : onnx::values_read(graph.nodes[i])) {
        reads_[i].push_back(name);
        if (const auto from = producers_.find(name); from != producers_.end()) {
          users_[from->second].push_back(i);
        }
      }
    }
    for (const onnx::ValueInfo& output : graph.outputs) outputs_.insert(output.name);
    for (const auto* list : {&graph.inputs, &graph.outputs, &graph.value_infos}) {
      for (const onnx::ValueInfo& info : *list) types_[info.name] = &info.type;
    }
  }

  const Names& reads(size_t node) const { return reads_[node]; }
  const std::vector<size_t>& users(size_t node) const { return users_[node]; }
  // The node that computes a value, or nullopt-like kNone.
  int64_t producer(std::string_view name) const {
    const auto found = producers_.find(name);
    return found == producers_.end() ? kNone : static_cast<int64_t>(found->second);
  }
  bool is_output(std::string_view name) const { return outputs_.contains(name); }
  const ValueType* type(std::string_view name) const {
    const auto found = types_.find(name);
    return found == types_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string_view, size_t> producers_;
  std::unordered_map<std::string_view, const ValueType*> types_;
  std::unordered_set<std::string_view> outputs_;
  std::vector<Names> reads_;
  std::vector<std::vector<size_t>> users_;
};

bool is_tensor(const ValueType* type) {
  return type == nullptr || type->kind == ValueType::Kind::tensor ||
         type->kind == ValueType::Kind::unknown;
}

// A vector or scalar of integers: a shape or a part of one.
bool is_shape_value(const ValueType* type) {
  return type != nullptr && type->kind == ValueType::Kind::tensor && type->element &&
         (*type->element == ElementType::i64 || *type->element == ElementType::i32) &&
         type->extents && type->extents->size() <= 1;
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const std::vector<NodeFacts>& facts)
      : graph_(graph), edges_(graph), level_(graph.nodes.size()), supported_(graph.nodes.size()) {
    for (size_t i = 0; i < facts.size(); ++i) supported_[i] = facts[i].supported;
  }

  std::vector<std::vector<size_t>> run() {
    do {
      set_levels();
      delay_shapes();
    } while (refuse_other_values());
    std::vector<std::vector<size_t>> groups;
    std::unordered_map<int, size_t> index;
    for (size_t i = 0; i < level_.size(); ++i) {
      if (!supported_[i]) continue;
      const auto [at, added] = index.emplace(level_[i], groups.size());
      if (added) groups.emplace_back();
      groups[at->second].push_back(i);
    }
    return groups;
  }

 private:
  // The number of switches from a refused to a supported node on the longest way to each node. On a
  // way the level never falls, and it rises between a refused node and a supported one: nodes of
  // one level are convex, and groups follow each other by level.
  void set_levels() {
    for (size_t i = 0; i < level_.size(); ++i) {
      level_[i] = 0;
      for (const std::string_view name : edges_.reads(i)) {
        const int64_t from = edges_.producer(name);
        if (from == kNone) continue;
        const auto at = static_cast<size_t>(from);
        level_[i] = std::max(level_[i], level_[at] + (supported_[i] && !supported_[at] ? 1 : 0));
      }
    }
  }

  // Moves nodes that compute shapes to the level of their first user.
  void delay_shapes() {
    for (size_t i = level_.size(); i-- > 0;) {
      if (!supported_[i] || edges_.users(i).empty()) continue;
      const Node& node = graph_.nodes[i];
      const bool shapes = std::ranges::all_of(node.outputs, [&](std::string_view name) {
        return name.empty() || (is_shape_value(edges_.type(name)) && !edges_.is_output(name));
      });
      if (!shapes) continue;
      int first = level_[edges_.users(i).front()];
      for (const size_t user : edges_.users(i)) first = std::min(first, level_[user]);
      level_[i] = std::max(level_[i], first);
    }
  }

  bool crosses(size_t node, std::string_view name) const {
    if (edges_.is_output(name)) return true;
    for (const size_t user : edges_.users(node)) {
      const Names& reads = edges_.reads(user);
      if (std::ranges::find(reads, name) == reads.end()) continue;
      if (!supported_[user] || level_[user] != level_[node]) return true;
    }
    return false;
  }

  // Refuses nodes with sequences, optionals or maps at the boundary of their group.
  bool refuse_other_values() {
    std::vector<size_t> refused;
    for (size_t i = 0; i < level_.size(); ++i) {
      if (!supported_[i]) continue;
      bool refuse = false;
      for (const std::string_view name : graph_.nodes[i].outputs) {
        refuse = refuse || (!is_tensor(edges_.type(name)) && crosses(i, name));
      }
      for (const std::string_view name : edges_.reads(i)) {
        if (is_tensor(edges_.type(name))) continue;
        const int64_t from = edges_.producer(name);
        const auto at = static_cast<size_t>(from);
        refuse = refuse || from == kNone || !supported_[at] || level_[at] != level_[i];
      }
      if (refuse) refused.push_back(i);
    }
    for (const size_t i : refused) supported_[i] = false;
    return !refused.empty();
  }

  const Graph& graph_;
  Edges edges_;
  std::vector<int> level_;
  std::vector<bool> supported_;
};

}  // namespace

std::vector<std::vector<size_t>> partition(const Graph& graph, const std::vector<NodeFacts>& facts,
                                           const PartitionOptions& options) {
  std::vector<std::vector<size_t>> groups = Partitioner(graph, facts).run();
  const bool all = groups.size() == 1 && groups.front().size() == graph.nodes.size();
  if (all) return groups;
  std::erase_if(groups, [&](const std::vector<size_t>& group) {
    return group.size() < options.least_nodes &&
           std::ranges::none_of(group, [&](size_t i) { return facts[i].heavy; });
  });
  return groups;
}

bool is_heavy(const Node& node) {
  constexpr auto kOperators = std::to_array<std::string_view>({"Conv",
                                                               "ConvInteger",
                                                               "ConvTranspose",
                                                               "DeformConv",
                                                               "Einsum",
                                                               "FusedConv",
                                                               "FusedGemm",
                                                               "FusedMatMul",
                                                               "GRU",
                                                               "Gemm",
                                                               "LSTM",
                                                               "LinearAttention",
                                                               "MatMul",
                                                               "MatMulBnb4",
                                                               "MatMulInteger",
                                                               "MatMulIntegerToFloat",
                                                               "MatMulNBits",
                                                               "MoE",
                                                               "NhwcConv",
                                                               "QGemm",
                                                               "QLinearConv",
                                                               "QLinearMatMul",
                                                               "QMoE",
                                                               "RNN",
                                                               "DynamicQuantizeMatMul",
                                                               "DynamicQuantizeLSTM"});
  return node.op_type.find("Attention") != std::string_view::npos ||
         std::ranges::find(kOperators, node.op_type) != kOperators.end();
}

}  // namespace lathe::ort_plugin
