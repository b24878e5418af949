// SPDX-License-Identifier: MIT
#include "import/onnx/random_numbers.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/ops.h"

namespace lathe::onnx {
namespace {

constexpr std::string_view kState = "random_counter";

class RandomSearch {
 public:
  explicit RandomSearch(const Model& model) : model_(model) {}

  bool in(std::span<const Node> nodes) {
    return std::ranges::any_of(nodes, [&](const Node& node) { return in(node); });
  }

 private:
  bool in(const Node& node) {
    const Function* function = model_.find_function(node.domain, node.op_type, node.overload);
    // A function that was searched before has none.
    if (function != nullptr) return functions_.insert(function).second && in(function->nodes);
    if (node.domain.empty() && (node.op_type.starts_with("Random") || node.op_type == "Bernoulli" ||
                                node.op_type == "Multinomial")) {
      return true;
    }
    return std::ranges::any_of(node.attributes, [&](const Attribute& attribute) {
      if (const auto* graph = attribute.get_if<std::shared_ptr<Graph>>())
        return in((*graph)->nodes);
      const auto* list = attribute.get_if<std::vector<std::shared_ptr<Graph>>>();
      return list != nullptr && std::ranges::any_of(*list, [&](const std::shared_ptr<Graph>& item) {
               return in(item->nodes);
             });
    });
  }

  const Model& model_;
  std::set<const Function*> functions_;
};

}  // namespace

bool draws_random(const Model& model, std::span<const Node> nodes) {
  return RandomSearch(model).in(nodes);
}

Value* random_counter(Scope& scope) {
  ImportState& state = scope.state;
  Value*& counter = state.counters[&scope.module];
  if (counter != nullptr) return counter;
  Module& main = state.program.main();
  check(&scope.module == &main, ErrorKind::internal, "module '{}' does not capture the counter",
        scope.module.name());
  State stored;
  stored.name = kState;
  stored.kind = StateKind::carry;
  stored.type = Type::tensor(ElementType::i64, {});
  state.program.states().push_back(std::move(stored));
  Instruction* first = main.instructions().empty() ? nullptr : main.instructions().front().get();
  counter = Builder(main, first)(ops::state_read, {}, {{"state", std::string(kState)}});
  return counter;
}

Value* iteration_counter(Builder& b, Value* counter, Value* iteration) {
  constexpr double kStride = 0x9E3779B1;  // odd: distinct for fewer iterations than this
  Value* base = b(ops::mul, {counter, b.scalar(ElementType::i64, kStride)});
  Value* next = b(ops::add, {iteration, b.scalar(ElementType::i64, 1)});
  return b(ops::add, {base, next});
}

void finish_random_counter(ImportState& state) {
  const auto counter = state.counters.find(&state.program.main());
  if (counter == state.counters.end()) return;
  Builder b(state.program.main());
  Value* next = b(ops::add, {counter->second, b.scalar(ElementType::i64, 1)});
  b(ops::state_replace, {counter->second, next}, {{"state", std::string(kState)}});
}

}  // namespace lathe::onnx
