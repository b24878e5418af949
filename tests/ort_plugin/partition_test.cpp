// SPDX-License-Identifier: MIT
#include "ort_plugin/partition.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace lathe::ort_plugin {
namespace {

using Groups = std::vector<std::vector<size_t>>;

onnx::Node node(std::string_view op, std::vector<std::string_view> in, std::string_view out) {
  onnx::Node made;
  made.op_type = op;
  made.inputs = std::move(in);
  made.outputs = {out};
  return made;
}

Groups cut(const onnx::Graph& graph, const std::set<size_t>& refused, size_t least = 1) {
  std::vector<NodeFacts> facts(graph.nodes.size());
  for (const size_t i : refused) facts[i].supported = false;
  for (size_t i = 0; i < facts.size(); ++i) facts[i].heavy = is_heavy(graph.nodes[i]);
  return partition(graph, facts, {.least_nodes = least});
}

onnx::ValueInfo value(std::string_view name, ElementType type, std::vector<onnx::Extent> extents) {
  onnx::ValueInfo info;
  info.name = name;
  info.type.kind = onnx::ValueType::Kind::tensor;
  info.type.element = type;
  info.type.extents = std::move(extents);
  return info;
}

TEST(Partition, AGraphWithoutRefusalsIsOneGroupHoweverSmall) {
  onnx::Graph graph;
  graph.nodes = {node("Relu", {"x"}, "y")};
  EXPECT_EQ(cut(graph, {}, 8), (Groups{{0}}));
}

TEST(Partition, ARefusedNodeOnAPathSeparatesItsEnds) {
  onnx::Graph graph;
  graph.nodes = {node("Exp", {"x"}, "a"), node("Sin", {"a"}, "b"), node("Add", {"a", "b"}, "y"),
                 node("Neg", {"a"}, "z")};
  EXPECT_EQ(cut(graph, {1}), (Groups{{0, 3}, {2}}));
}

TEST(Partition, SmallGroupsNeedAMatrixMultiplication) {
  onnx::Graph graph;
  graph.nodes = {node("Exp", {"x"}, "a"), node("Sin", {"a"}, "b"), node("MatMul", {"b", "w"}, "y")};
  EXPECT_EQ(cut(graph, {1}, 8), (Groups{{2}}));
}

TEST(Partition, ShapesAreComputedWhereTheyAreUsed) {
  onnx::Graph graph;
  graph.nodes = {node("Shape", {"x"}, "s"), node("Exp", {"x"}, "a"), node("Sin", {"a"}, "b"),
                 node("Reshape", {"b", "s"}, "y")};
  graph.value_infos = {value("s", ElementType::i64, {{2, "", ""}})};
  EXPECT_EQ(cut(graph, {2}), (Groups{{0, 3}, {1}}));
}

TEST(Partition, SequencesStayInsideOfAGroup) {
  onnx::Graph graph;
  graph.nodes = {node("SequenceConstruct", {"x"}, "s"), node("SequenceAt", {"s", "i"}, "y"),
                 node("SequenceConstruct", {"x"}, "t"), node("SequenceLength", {"t"}, "z")};
  onnx::ValueInfo sequence;
  sequence.type.kind = onnx::ValueType::Kind::sequence;
  for (const std::string_view name : {"s", "t"}) {
    sequence.name = name;
    graph.value_infos.push_back(sequence);
  }
  EXPECT_EQ(cut(graph, {3}), (Groups{{0, 1}}));
}

// The groups and the other nodes, as one node each, have an order.
bool has_order(const onnx::Graph& graph, const Groups& groups) {
  std::vector<size_t> owner(graph.nodes.size());
  for (size_t i = 0; i < owner.size(); ++i) owner[i] = groups.size() + i;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const size_t i : groups[g]) owner[i] = g;
  }
  std::map<size_t, std::set<size_t>> before;
  std::set<size_t> left(owner.begin(), owner.end());
  for (size_t i = 0; i < owner.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      for (const std::string_view input : graph.nodes[i].inputs) {
        if (input == graph.nodes[j].outputs[0] && owner[i] != owner[j]) {
          before[owner[i]].insert(owner[j]);
        }
      }
    }
  }
  while (!left.empty()) {
    const auto free = std::ranges::find_if(left, [&](size_t o) {
      return std::ranges::none_of(before[o], [&](size_t b) { return left.contains(b); });
    });
    if (free == left.end()) return false;
    left.erase(free);
  }
  return true;
}

TEST(Partition, RandomGraphsHaveNoCyclesAndKeepAllSupportedNodes) {
  std::vector<std::string> names;
  for (int i = 0; i < 64; ++i) names.push_back("v" + std::to_string(i));
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    onnx::Graph graph;
    std::set<size_t> refused;
    for (size_t i = 1; i < 40; ++i) {
      graph.nodes.push_back(node("Add", {names[random() % i], names[random() % i]}, names[i]));
      if (random() % 4 == 0) refused.insert(i - 1);
      if (random() % 4 == 0) {
        graph.value_infos.push_back(value(names[i], ElementType::i64, {{2, "", ""}}));
      }
    }
    const Groups groups = cut(graph, refused);
    size_t claimed = 0;
    for (const auto& group : groups) claimed += group.size();
    EXPECT_EQ(claimed, graph.nodes.size() - refused.size()) << "seed " << seed;
    EXPECT_TRUE(has_order(graph, groups)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace lathe::ort_plugin
