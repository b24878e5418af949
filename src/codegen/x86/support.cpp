// SPDX-License-Identifier: MIT
// What the machines have code for, and the constants behind it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "codegen/x86/emit.h"
#include "codegen/x86/machine.h"

namespace lathe::codegen::x86 {

std::string why_not_operation(const Node& node, Isa /*isa*/) {
  for (const ExprType type : {node.type, node.input_type}) {
    if (type != ExprType::f32 && type != ExprType::i32 && type != ExprType::boolean) {
      return fmt::format("{} computes in {}", to_string(node.op), to_string(type));
    }
  }
  if (node.op == ExprOp::div && node.type != ExprType::f32) return "div of integers";
  return "";
}

std::vector<ElementType> operand_types(Isa /*isa*/) {
  return {ElementType::f32, ElementType::f16, ElementType::bf16, ElementType::i8,
          ElementType::u8,  ElementType::i16, ElementType::u16,  ElementType::i32,
          ElementType::u32, ElementType::i64, ElementType::u64,  ElementType::boolean};
}

std::string why_not_element(ElementType storage, ExprType type, Isa isa) {
  const std::vector<ElementType> known = x86::operand_types(isa);
  if (std::ranges::find(known, storage) == known.end()) {
    return fmt::format("an operand is {}", to_string(storage));
  }
  const ExprType own = is_floating(storage)              ? ExprType::f32
                       : storage == ElementType::boolean ? ExprType::boolean
                                                         : ExprType::i32;
  if (own == type) return "";
  return fmt::format("{} is read or written as {}", to_string(storage), to_string(type));
}

namespace {

struct Comparison {
  ExprOp op, reversed;
  int floats, integers;  // predicates
};
constexpr std::array<Comparison, 6> kComparisons{{
    {ExprOp::eq, ExprOp::eq, 0, 0},
    {ExprOp::ne, ExprOp::ne, 4, 4},
    {ExprOp::lt, ExprOp::gt, 1, 1},
    {ExprOp::le, ExprOp::ge, 2, 2},
    {ExprOp::gt, ExprOp::lt, 0x1e, 6},
    {ExprOp::ge, ExprOp::le, 0x1d, 5},
}};

const Comparison& comparison(ExprOp op) {
  return *std::ranges::find(kComparisons, op, &Comparison::op);
}

}  // namespace

int float_predicate(ExprOp op) { return comparison(op).floats; }
int integer_predicate(ExprOp op) { return comparison(op).integers; }
ExprOp reversed(ExprOp op) { return comparison(op).reversed; }

namespace {

class Scaling {
 public:
  explicit Scaling(const std::vector<Node>& nodes) : nodes_(nodes) {}

  // x and k of mul(mul(x, 2^half), 2^(k - half)), where half = k >> 1.
  std::optional<std::array<NodeId, 2>> find(const Node& node) const {
    if (!is_float_product(node) || !is_float_product(at(node.inputs[0]))) return std::nullopt;
    const NodeId half = exponent(at(node.inputs[0]).inputs[1]), rest = exponent(node.inputs[1]);
    if (half == kNone || rest == kNone) return std::nullopt;
    const Node &shift = at(half), &difference = at(rest);
    const bool found = shift.op == ExprOp::shift_right && is_constant(shift.inputs[1], 1) &&
                       difference.op == ExprOp::sub && difference.inputs[0] == shift.inputs[0] &&
                       difference.inputs[1] == half;
    if (!found) return std::nullopt;
    return std::array{at(node.inputs[0]).inputs[0], shift.inputs[0]};
  }

 private:
  const Node& at(NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  static bool is_float_product(const Node& node) {
    return node.op == ExprOp::mul && node.type == ExprType::f32;
  }
  bool is_constant(NodeId id, uint64_t bits) const {
    return at(id).kind == Node::Kind::constant && at(id).bits == bits;
  }
  // i of the bits of 2^i, (i + bias) << mantissa.
  NodeId exponent(NodeId id) const {
    constexpr uint64_t kBias = 127, kMantissa = 23;
    if (at(id).op != ExprOp::shift_left || !is_constant(at(id).inputs[1], kMantissa)) return kNone;
    const Node& sum = at(at(id).inputs[0]);
    return sum.op == ExprOp::add && is_constant(sum.inputs[1], kBias) ? sum.inputs[0] : kNone;
  }

  const std::vector<Node>& nodes_;
};

}  // namespace

std::vector<Node> with_negated_products(std::vector<Node> nodes) {
  for (Node& node : nodes) {
    if (node.op != ExprOp::fma || node.type != ExprType::f32) continue;
    for (size_t factor = 0; factor < 2; ++factor) {
      const Node& input = nodes[static_cast<size_t>(node.inputs[factor])];
      if (input.op != ExprOp::neg || input.type != ExprType::f32) continue;
      node.inputs[factor] = input.inputs[0];
      node.bits ^= 1;
    }
  }
  return nodes;
}

std::vector<Node> with_scalings(std::vector<Node> nodes) {
  for (Node& node : nodes) {
    const auto scaling = Scaling(nodes).find(node);
    if (!scaling) continue;
    node = {.op = ExprOp::shift_left,
            .input_type = ExprType::i32,
            .inputs = {(*scaling)[0], (*scaling)[1], kNone}};
  }
  return nodes;
}

uint32_t neutral_bits(ExprOp op) {
  constexpr uint32_t kLowest = 0xff800000;  // -infinity
  return op == ExprOp::max ? kLowest : 0;
}

Source value_in(int reg) {
  static constexpr Node kValue{};
  return {.node = &kValue, .reg = reg, .cell = {}};
}

int rounding_mode(ExprOp op) {
  constexpr int kNoException = 8;
  return kNoException + (op == ExprOp::floor   ? 1
                         : op == ExprOp::ceil  ? 2
                         : op == ExprOp::trunc ? 3
                                               : 0);
}

bool is_comparison(ExprOp op) { return op >= ExprOp::eq && op <= ExprOp::ge; }

bool is_number(const Node& node) {
  constexpr uint64_t kInfinity = 0x7f800000;
  return node.kind == Node::Kind::constant && (node.bits & kMaxInt) <= kInfinity;
}

int32_t ConstantPool::add(Table& table, uint32_t bits, int copies) {
  const auto [known, added] =
      table.offsets.emplace(bits, static_cast<int32_t>(table.values.size() * sizeof bits));
  if (added) table.values.insert(table.values.end(), static_cast<size_t>(copies), bits);
  return known->second;
}

Mem ConstantPool::cell(uint32_t bits) { return aj::x86::ptr(label_, add(cells_, bits, 1)); }
Mem ConstantPool::vector(uint32_t bits) {
  return aj::x86::ptr(vectors_label_, add(vectors_, bits, 8));
}

aj::Label ConstantPool::lane_masks() {
  if (!lane_masks_.isValid()) lane_masks_ = to_.newLabel();
  return lane_masks_;
}

void ConstantPool::embed() {
  constexpr uint32_t kAlignment = 64;
  to_.align(aj::AlignMode::kData, kAlignment);
  if (lane_masks_.isValid()) {
    to_.bind(lane_masks_);
    for (int lane = 0; lane < 16; ++lane) to_.embedInt32(lane < 8 ? -1 : 0);
  }
  to_.bind(vectors_label_);
  for (const uint32_t value : vectors_.values) to_.embedUInt32(value);
  to_.bind(label_);
  for (const uint32_t value : cells_.values) to_.embedUInt32(value);
}

}  // namespace lathe::codegen::x86
