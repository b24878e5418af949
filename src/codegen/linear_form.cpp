// SPDX-License-Identifier: MIT
#include "codegen/linear_form.h"

#include "base/error.h"

namespace lathe::codegen {

size_t Node::count() const {
  size_t n = 0;
  while (n < inputs.size() && inputs[n] != kNone) ++n;
  return n;
}

size_t LinearForm::Hash::operator()(const Node& node) const {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  uint64_t hash = node.bits * kOdd;
  const auto mix = [&](auto value) {
    hash = (hash ^ (hash >> 29) ^ static_cast<uint64_t>(value)) * kOdd;
  };
  mix(node.kind), mix(node.op), mix(node.type), mix(node.input_type);
  for (const NodeId input : node.inputs) mix(input);
  return hash ^ (hash >> 32);
}

NodeId LinearForm::add(const Node& node) {
  const auto [known, added] = known_.emplace(node, static_cast<NodeId>(nodes_.size()));
  if (added) nodes_.push_back(node);
  return known->second;
}

NodeId LinearForm::load(int operand, ExprType type) {
  return add({.kind = Node::Kind::load,
              .type = type,
              .input_type = type,
              .bits = static_cast<uint64_t>(operand)});
}

NodeId LinearForm::load_high(int operand) {
  return add({.kind = Node::Kind::load_high,
              .type = ExprType::i32,
              .input_type = ExprType::i32,
              .bits = static_cast<uint64_t>(operand)});
}

NodeId LinearForm::scalar(int index, ExprType type) {
  return add({.kind = Node::Kind::scalar,
              .type = type,
              .input_type = type,
              .bits = static_cast<uint64_t>(index)});
}

NodeId LinearForm::constant(ExprType type, uint64_t bits) {
  return add({.kind = Node::Kind::constant, .type = type, .input_type = type, .bits = bits});
}

NodeId LinearForm::operation(ExprOp op, ExprType type, ExprType input_type,
                             std::span<const NodeId> inputs) {
  if (op == ExprOp::bitcast) return inputs[0];  // the same bytes
  Node node{.op = op, .type = type, .input_type = input_type};
  for (size_t i = 0; i < inputs.size(); ++i) node.inputs[i] = inputs[i];
  return add(node);
}

NodeId LinearForm::truncate(NodeId input) {
  return add({.op = ExprOp::convert,
              .type = ExprType::i32,
              .input_type = ExprType::f32,
              .inputs = {input, kNone, kNone},
              .bits = 1});
}

// Iterative: chains may be long.
NodeId LinearForm::append(const Expr& formula, std::span<const NodeId> arguments) {
  std::unordered_map<const void*, NodeId> numbers;
  std::vector<std::pair<const Expr*, size_t>> stack{{&formula, 0}};
  std::array<NodeId, 3> inputs{};
  while (!stack.empty()) {
    auto& [expr, next] = stack.back();
    if (next < expr->inputs().size()) {
      const Expr& input = expr->inputs()[next++];
      if (!numbers.contains(input.id())) stack.emplace_back(&input, 0);
      continue;
    }
    NodeId id = kNone;
    if (expr->op() == ExprOp::argument) {
      const auto index = static_cast<size_t>(expr->argument_index());
      check(index < arguments.size(), ErrorKind::internal, "argument {} of {}", index,
            arguments.size());
      id = arguments[index];
    } else if (expr->is_constant()) {
      id = constant(expr->type(), expr->constant_bits());
    } else {
      size_t count = 0;
      for (const Expr& input : expr->inputs()) inputs[count++] = numbers.at(input.id());
      id = operation(expr->op(), expr->type(), expr->inputs().back().type(),
                     std::span(inputs).first(count));
    }
    numbers.emplace(expr->id(), id);
    stack.pop_back();
  }
  return numbers.at(formula.id());
}

}  // namespace lathe::codegen
