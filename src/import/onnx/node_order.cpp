// SPDX-License-Identifier: MIT
#include "import/onnx/node_order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

#include "base/error.h"

namespace lathe::onnx {
namespace {

// Nested function calls can describe exponentially many nodes.
constexpr int64_t kMaxInlinedNodes = 4'000'000;

bool is_sorted(const NodeUses& uses) {
  for (size_t i = 0; i < uses.size(); ++i) {
    for (const int64_t used : uses[i]) {
      if (used >= static_cast<int64_t>(i)) return false;
    }
  }
  return true;
}

std::string describe(const Node& node) {
  const std::string name = node.name.empty() ? "" : fmt::format(" '{}'", escape(node.name));
  return fmt::format("node {} ({}{})", node.index, escape(node.op_type), name);
}

// Each unordered node uses another unordered one, so following uses finds a cycle.
[[noreturn]] void fail_with_cycle(const std::vector<Node>& nodes, const NodeUses& uses,
                                  const std::vector<int64_t>& missing, std::string_view where) {
  const auto is_left = [&](int64_t i) { return missing[static_cast<size_t>(i)] > 0; };
  std::vector<int64_t> path;
  std::vector<bool> on_path(nodes.size());
  int64_t at = 0;
  while (!is_left(at)) ++at;
  while (!on_path[static_cast<size_t>(at)]) {
    on_path[static_cast<size_t>(at)] = true;
    path.push_back(at);
    const std::vector<int64_t>& used = uses[static_cast<size_t>(at)];
    at = *std::find_if(used.begin(), used.end(), is_left);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  path.push_back(at);
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(path.size(), kShown); ++i) {
    text += (i == 0 ? "" : " uses ") + describe(nodes[static_cast<size_t>(path[i])]);
  }
  if (path.size() > kShown) text += fmt::format(" uses … ({} nodes in all)", path.size() - 1);
  fail(ErrorKind::invalid_model, "{} has a cycle: {}", where, text);
}

using Key = std::string;
Key key_of(std::string_view domain, std::string_view name, std::string_view overload) {
  std::string key;  // with lengths, so that keys are unique
  for (const std::string_view part : {domain, name, overload}) {
    key += fmt::format("{}:", part.size()).append(part);
  }
  return key;
}

class Calls {
 public:
  explicit Calls(const Model& model) : model_(model), costs_(model.functions.size()) {
    for (size_t i = 0; i < model.functions.size(); ++i) {
      const Function& function = model.functions[i];
      check(places_.emplace(key_of(function.domain, function.name, function.overload), i).second,
            ErrorKind::invalid_model, "function '{}:{}' is defined twice", escape(function.domain),
            escape(function.name));
    }
  }

  void run() {
    for (size_t i = 0; i < costs_.size(); ++i) visit(i, 0);
    const Cost total = cost_of(model_.graph.nodes, 0);
    check(total.nodes <= kMaxInlinedNodes, ErrorKind::invalid_model,
          "'{}' has more than {} nodes once its functions are inlined", escape(model_.origin),
          kMaxInlinedNodes);
  }

 private:
  struct Cost {
    int64_t nodes = 0;  // after inlining; stops at the bound
    int depth = 0;      // of calls
  };
  struct Visit {
    enum class State : uint8_t { not_seen, in_progress, done };
    State state = State::not_seen;
    Cost cost;
  };

  static void add(Cost& cost, const Cost& more) {
    cost.nodes = std::min(cost.nodes + more.nodes, kMaxInlinedNodes + 1);
    cost.depth = std::max(cost.depth, more.depth);
  }

  Cost cost_of(const std::vector<Node>& nodes, int depth) {
    Cost cost;
    for (const Node& node : nodes) {
      const auto found = places_.find(key_of(node.domain, node.op_type, node.overload));
      add(cost, found == places_.end() ? Cost{1, 0} : visit(found->second, depth + 1));
      for (const Attribute& attribute : node.attributes) {
        if (const auto* graph = attribute.get_if<std::shared_ptr<Graph>>()) {
          add(cost, cost_of((*graph)->nodes, depth));
        } else if (const auto* list = attribute.get_if<std::vector<std::shared_ptr<Graph>>>()) {
          for (const std::shared_ptr<Graph>& item : *list) add(cost, cost_of(item->nodes, depth));
        }
      }
    }
    return cost;
  }

  // `depth` bounds this recursion, the cost's depth that of inlining.
  Cost visit(size_t place, int depth) {
    const Function& function = model_.functions[place];
    Visit& visit = costs_[place];
    check(visit.state != Visit::State::in_progress, ErrorKind::invalid_model,
          "function '{}:{}' calls itself, directly or through others", escape(function.domain),
          escape(function.name));
    if (visit.state == Visit::State::not_seen && depth < kMaxFunctionDepth) {
      visit.state = Visit::State::in_progress;
      visit.cost = cost_of(function.nodes, depth);
      ++visit.cost.depth;
      visit.state = Visit::State::done;
    }
    check(visit.state == Visit::State::done && visit.cost.depth <= kMaxFunctionDepth,
          ErrorKind::invalid_model, "calls of functions nest deeper than {} levels, at '{}:{}'",
          kMaxFunctionDepth, escape(function.domain), escape(function.name));
    return visit.cost;
  }

  const Model& model_;
  std::unordered_map<Key, size_t> places_;
  std::vector<Visit> costs_;
};

}  // namespace

void sort_nodes(std::vector<Node>& nodes, const NodeUses& uses, std::string_view where) {
  if (is_sorted(uses)) return;
  std::vector<int64_t> missing(nodes.size());  // number of used nodes that are not ordered yet
  NodeUses users(nodes.size());
  for (size_t i = 0; i < uses.size(); ++i) {
    missing[i] = static_cast<int64_t>(uses[i].size());
    for (const int64_t used : uses[i]) {
      users[static_cast<size_t>(used)].push_back(static_cast<int64_t>(i));
    }
  }
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (missing[i] == 0) ready.push(static_cast<int64_t>(i));
  }
  std::vector<int64_t> order;
  while (!ready.empty()) {
    const int64_t next = ready.top();
    order.push_back(next);
    ready.pop();
    for (const int64_t user : users[static_cast<size_t>(next)]) {
      if (--missing[static_cast<size_t>(user)] == 0) ready.push(user);
    }
  }
  if (order.size() < nodes.size()) fail_with_cycle(nodes, uses, missing, where);
  std::vector<Node> sorted;
  sorted.reserve(nodes.size());
  for (const int64_t i : order) sorted.push_back(std::move(nodes[static_cast<size_t>(i)]));
  nodes = std::move(sorted);
}

void check_calls(const Model& model) { Calls(model).run(); }

}  // namespace lathe::onnx
