// SPDX-License-Identifier: MIT
// What the machines have code for, and the constants behind it.
#include <fmt/format.h>

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

std::string why_not_element(ElementType storage, ExprType type, Isa /*isa*/) {
  const bool supported = (storage == ElementType::f32 && type == ExprType::f32) ||
                         (storage == ElementType::boolean && type == ExprType::boolean);
  if (supported) return "";
  return fmt::format("an operand is {}", to_string(storage));
}

std::vector<ElementType> operand_types(Isa /*isa*/) {
  return {ElementType::f32, ElementType::boolean};
}

Mem ConstantPool::cell(uint32_t bits) {
  const auto [known, added] =
      offsets_.emplace(bits, static_cast<int32_t>(values_.size() * sizeof bits));
  if (added) values_.push_back(bits);
  return aj::x86::ptr(label_, known->second);
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
  to_.bind(label_);
  for (const uint32_t value : values_) to_.embedUInt32(value);
}

}  // namespace lathe::codegen::x86
