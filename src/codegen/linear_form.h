// SPDX-License-Identifier: MIT
// Formulas as one list of distinct operations, inputs first: what every emitter reads.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/expr.h"

namespace lathe::codegen {

// Index of a node.
using NodeId = int32_t;
inline constexpr NodeId kNone = -1;

struct Node {
  enum class Kind : uint8_t {
    load,       // an element of operand `bits`; as i32, the low half of one of 64 bits
    load_high,  // the high half of such an element
    scalar,     // row scalar `bits`
    constant,   // `bits`
    operation,
  };
  Kind kind = Kind::operation;
  ExprOp op = ExprOp::constant;
  ExprType type = ExprType::f32;
  ExprType input_type = ExprType::f32;  // of the last input, as the operation reads it
  std::array<NodeId, 3> inputs{kNone, kNone, kNone};
  uint64_t bits = 0;

  size_t count() const;  // inputs
  bool is_element() const { return kind == Kind::load || kind == Kind::load_high; }
  bool operator==(const Node&) const = default;
};

class LinearForm {
 public:
  NodeId load(int operand, ExprType type);
  NodeId load_high(int operand);
  NodeId scalar(int index, ExprType type);
  NodeId constant(ExprType type, uint64_t bits);
  // `input_type`: of the last input, which may be a bit cast of its node.
  NodeId operation(ExprOp op, ExprType type, ExprType input_type, std::span<const NodeId> inputs);
  // A float as i32; beyond its range, as for NaN, the minimum.
  NodeId truncate(NodeId input);
  // The formula's value; its argument i is `arguments[i]`.
  NodeId append(const Expr& formula, std::span<const NodeId> arguments);

  static bool truncates(const Node& node) { return node.op == ExprOp::convert && node.bits != 0; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const Node& operator[](NodeId id) const { return nodes_[static_cast<size_t>(id)]; }

 private:
  struct Hash {
    size_t operator()(const Node& node) const;
  };
  NodeId add(const Node& node);

  std::vector<Node> nodes_;
  std::unordered_map<Node, NodeId, Hash> known_;
};

}  // namespace lathe::codegen
