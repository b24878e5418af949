// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/gemm/epilogue_simple.h"

namespace lathe::cpu {
namespace {

bool is_plain(const Operand& operand) {
  return operand.data != nullptr && operand.scale == 1 && operand.zero == 0 &&
         operand.column_stride == 1;
}
bool is_column(const Operand& operand) {
  return is_plain(operand) && operand.type == ElementType::f32 && operand.row_stride == 0;
}

bool is_int8(ElementType type) { return type == ElementType::i8 || type == ElementType::u8; }

// Adds one step to the simple form; returns false if the order has no place for it.
bool take(const EpilogueStep& step, SimpleEpilogue& simple) {
  using Kind = EpilogueStep::Kind;
  if (simple.has_activation) return false;
  if (step.kind == Kind::activate) {
    simple.has_activation = true;
    simple.activation = step.activation;
    simple.a = step.a;
    simple.b = step.b;
    return true;
  }
  if (simple.residual != nullptr) return false;
  const bool adds = step.kind == Kind::add;
  if (adds && step.operand.row_stride != 0 && is_plain(step.operand) &&
      (step.operand.type == ElementType::f32 || step.operand.type == simple.out)) {
    simple.residual = step.operand.data;
    simple.residual_type = step.operand.type;
    simple.residual_stride = step.operand.row_stride;
    return true;
  }
  if (!is_column(step.operand) || simple.bias != nullptr) return false;
  const auto* data = static_cast<const float*>(step.operand.data);
  if (adds) {
    simple.bias = data;
    return true;
  }
  if (step.kind != Kind::mul || simple.scale != nullptr) return false;
  simple.scale = data;
  return true;
}

}  // namespace

bool simplify(const Epilogue& epilogue, SimpleEpilogue& simple) {
  simple = {};
  simple.out = epilogue.out;
  simple.column_compensation = epilogue.column_compensation;
  simple.out_zero = epilogue.out_zero.scale;
  const bool fits =
      simple.out == ElementType::f32 || simple.out == ElementType::bf16 || is_int8(simple.out);
  if (!fits || !epilogue.outer.empty() || epilogue.out_zero.data != nullptr) return false;
  if (!is_int8(simple.out) && simple.out_zero != 0) return false;
  for (const EpilogueStep& step : epilogue.steps) {
    if (!take(step, simple)) return false;
  }
  return true;
}

}  // namespace lathe::cpu
