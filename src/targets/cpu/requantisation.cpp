// SPDX-License-Identifier: MIT
#include "targets/cpu/requantisation.h"

#include <fmt/format.h>

#include <optional>

#include "ir/ops.h"
#include "passes/value_queries.h"

namespace lathe::cpu {
namespace {

enum Operand : size_t { kValue, kScale, kZero };
constexpr size_t kResultZero = 7;  // of qlinear_conv

float lowest(ElementType type) { return type == ElementType::i8 ? -128 : 0; }

// Behind a parameter of a region's body: the value outside.
const Value& outside(const Value& value, const Instruction* region) {
  const bool captured = region != nullptr && value.definition() == nullptr;
  return captured ? *region->operands()[static_cast<size_t>(value.index())] : value;
}

std::optional<double> number(const Instruction& instruction, size_t operand,
                             const Instruction* region) {
  if (!has_operand(instruction, operand))
    return operand == kZero ? std::optional(0.0) : std::nullopt;
  return number_of(outside(*instruction.operands()[operand], region));
}

// Between bytes and f32, with one scale above 0 and one zero point, both literals.
bool has_one_scale(const Instruction& instruction, const Instruction* region) {
  const std::optional<double> scale = number(instruction, kScale, region);
  return scale && *scale > 0 && element_of(instruction, kScale) == ElementType::f32 &&
         number(instruction, kZero, region);
}

std::string why_no_addition(const Instruction& anchor, const Instruction& next, int operand,
                            const Instruction* region) {
  const Instruction* side = next.operands()[operand == 0 ? 1 : 0]->definition();
  if (side == nullptr || side->op() != ops::dequantize_linear ||
      side->operands()[kValue]->type() != anchor.result()->type() ||
      !has_one_scale(*side, region)) {
    return "its other operand is not dequantised from bytes of the same shape";
  }
  return side->operands()[kValue] != anchor.result() ? "" : "it has one operand";
}

float constant(const Instruction& instruction, size_t operand, Constants constants) {
  if (!has_operand(instruction, operand)) return 0;
  const auto index = static_cast<size_t>(instruction.operands()[operand]->index());
  return floats_of(*constant_at(constants, index))[0];
}

}  // namespace

bool is_byte_anchor(const Instruction& anchor) { return anchor.op() == ops::qlinear_conv; }

std::string why_no_requantisation(const Instruction& anchor, const Instruction& next, int operand,
                                  const Instruction* region) {
  const ElementType bytes = anchor.result()->type().element;
  if (next.op() == ops::dequantize_linear) {
    if (!has_one_scale(next, region)) return "it has several scales";
    const auto zero = number_of(outside(*anchor.operands()[kResultZero], region));
    if (!zero || number(next, kZero, region) != zero) return "its zero point is another";
    const auto& uses = next.result()->uses();
    const bool adds = uses.size() == 1 && uses[0].user != nullptr && uses[0].user->op() == ops::add;
    return adds ? "" : "nothing is added to it";
  }
  if (next.op() == ops::quantize_linear) {
    if (next.result()->type().element != bytes) return "it quantises to another type";
    return operand == 0 && has_one_scale(next, region) ? "" : "it has several scales";
  }
  if (next.result()->type().element != ElementType::f32) return "another type";
  if (next.op() == ops::add) return why_no_addition(anchor, next, operand, region);
  return next.op() == ops::relu ? ""
                                : fmt::format("no epilogue of bytes computes {}", next.op().name);
}

bool is_dequantised_side(const Instruction& instruction) {
  return instruction.op() == ops::dequantize_linear &&
         instruction.operands()[kValue]->definition() == nullptr;
}

RequantisedSteps requantised_steps(const Module& body, const Instruction& anchor,
                                   Constants constants) {
  using Kind = EpilogueStep::Kind;
  const Instruction& last = *body.instructions().back();
  const float divisor = constant(last, kScale, constants);
  RequantisedSteps out;
  out.out_zero = constant(last, kZero, constants);
  const auto add = [&](Kind kind) -> RequantisedStep& {
    RequantisedStep& made = out.steps.emplace_back();
    made.step.kind = kind;
    return made;
  };
  for (const auto& next : body.instructions()) {
    if (next->op() == ops::dequantize_linear && !is_dequantised_side(*next)) {
      const float low = lowest(anchor.result()->type().element);
      const float zero = constant(anchor, kResultZero, constants);
      EpilogueStep& rounding = add(Kind::round).step;
      rounding.a = low - zero;
      rounding.b = low + 255 - zero;
      add(Kind::mul).step.operand.scale = constant(*next, kScale, constants) / divisor;
    } else if (next->op() == ops::add) {
      const Value* first = next->operands()[0];
      const bool is_side =
          first->definition() != nullptr && is_dequantised_side(*first->definition());
      const Instruction& side = *next->operands()[is_side ? 0 : 1]->definition();
      RequantisedStep& made = add(Kind::add);
      made.residual = side.operands()[kValue];
      made.step.operand.scale = constant(side, kScale, constants) / divisor;
      made.step.operand.zero = constant(side, kZero, constants);
    } else if (next->op() == ops::relu) {
      add(Kind::activate).step.activation = Activation::relu;
    }
  }
  return out;
}

}  // namespace lathe::cpu
