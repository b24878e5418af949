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

// What requantisation multiplies by.
bool is_factor(const EpilogueStep& step) {
  return step.kind == EpilogueStep::Kind::mul && step.operand.data == nullptr;
}
// An int8 residual with a scale and a zero point.
bool is_byte_residual(const EpilogueStep& step, ElementType out) {
  const Operand& operand = step.operand;
  return step.kind == EpilogueStep::Kind::add && operand.data != nullptr && operand.type == out &&
         operand.column_stride == 1 && operand.row_stride != 0;
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
  if (simple.residual != nullptr || simple.requantises) return false;
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

// Adds three steps: a rounding, a factor, an int8 residual.
bool take_requantisation(std::span<const EpilogueStep> steps, SimpleEpilogue& simple) {
  if (steps.size() < 3 || simple.residual != nullptr || simple.has_activation ||
      !is_int8(simple.out) || !is_factor(steps[1]) || !is_byte_residual(steps[2], simple.out)) {
    return false;
  }
  const Operand& residual = steps[2].operand;
  simple.requantises = true;
  simple.requantisation = {.low = steps[0].a,
                           .high = steps[0].b,
                           .factor = steps[1].operand.scale,
                           .residual_scale = residual.scale,
                           .residual_zero = residual.zero};
  simple.residual = residual.data;
  simple.residual_type = residual.type;
  simple.residual_stride = residual.row_stride;
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
  if (!fits || epilogue.code != nullptr || !epilogue.outer.empty() ||
      epilogue.out_zero.data != nullptr)
    return false;
  if (!is_int8(simple.out) && simple.out_zero != 0) return false;
  for (size_t i = 0; i < epilogue.steps.size(); ++i) {
    if (epilogue.steps[i].kind != EpilogueStep::Kind::round) {
      if (!take(epilogue.steps[i], simple)) return false;
      continue;
    }
    if (!take_requantisation(epilogue.steps.subspan(i), simple)) return false;
    i += 2;
  }
  return true;
}

}  // namespace lathe::cpu
