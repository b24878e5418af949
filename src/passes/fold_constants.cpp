// SPDX-License-Identifier: MIT
#include "passes/fold_constants.h"

#include <map>

#include "ir/builder.h"
#include "ir/infer.h"
#include "ir/ops.h"
#include "ops/evaluation.h"
#include "ops/support/symbolic.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

// More bytes, made from fewer, are left to the run, whose memory may be limited.
constexpr int64_t kMostMadeBytes = int64_t{1} << 30;

bool is_constant(const Value* value) {
  const Instruction* definition = value == nullptr ? nullptr : value->definition();
  if (value == nullptr) return true;
  if (definition == nullptr) return false;
  if (definition->literal() != nullptr) return !definition->literal()->bindable;
  return definition->deferred();
}

bool can_fold(const Instruction& instruction) {
  const Op& op = instruction.op();
  if (op.structural != Structural::none || (op.traits & kImpure) != 0 || !op.bodies.empty() ||
      instruction.deferred() || instruction.operands().empty()) {
    return false;
  }
  for (const Value& result : instruction.results()) {
    if (result.type().is_boxed() || !constant_values(*result.type().dims)) return false;
  }
  for (const Value* operand : instruction.operands()) {
    if (!is_constant(operand) || (operand != nullptr && operand->type().is_boxed())) return false;
  }
  return true;
}

int64_t result_bytes(const Instruction& instruction) {
  int64_t bytes = 0;
  for (const Value& result : instruction.results()) {
    const auto dims = constant_values(*result.type().dims);
    bytes += bytes_for(result.type().element, element_count(*dims));
  }
  return bytes;
}

// True for the output of fold_elements(): dims, then an optional reshape and an optional cast.
bool is_folded(const Instruction& instruction) {
  const Instruction* at = &instruction;
  for (const Op* step : {&ops::cast, &ops::reshape}) {
    if (at != nullptr && at->op() == *step) at = at->operands()[0]->definition();
  }
  return at != nullptr && at->op().structural == Structural::dims;
}

// Replaces a small integer tensor whose elements are dims by `dims` or a literal. Deferred ones
// stay deferred, as their users' operands have to be.
bool fold_elements(Instruction& instruction) {
  if (instruction.results().size() != 1 || instruction.deferred()) return false;
  Value& result = *instruction.result();
  const Structural structural = instruction.op().structural;
  if (structural != Structural::none || !result.elements() || !result.type().is_ranked() ||
      result.type().element == ElementType::boolean || is_folded(instruction)) {
    return false;
  }
  // A scalar has the only shape without elements.
  if (result.elements()->empty() && !(result.type() == Type::tensor(ElementType::i64, {0}))) {
    return false;
  }
  Builder builder(*instruction.module(), &instruction);
  builder.set_origins(instruction.origins());
  const auto values = constant_values(*result.elements());
  const auto shape = constant_values(*result.type().dims);
  Value* dims = nullptr;
  if (values && shape && info(result.type().element).bits >= 8) {
    Tensor tensor(result.type().element, *shape);
    convert(tensor.type(), tensor.data(), ElementType::i64, values->data(), tensor.count());
    dims = builder.literal(std::move(tensor));
  } else {
    dims = builder.dims(*result.elements());
    if (result.type().rank() != 1) dims = builder.reshape(dims, *result.type().dims);
    dims = builder.cast(dims, result.type().element);
  }
  const bool same_elements = dims->elements() == result.elements();
  instruction.module()->replace_uses(&result, dims);
  instruction.module()->erase(&instruction);
  if (!same_elements) infer_users(*dims);
  return true;
}

void fold(Instruction& instruction) {
  std::vector<Box> operands;
  for (const Value* operand : instruction.operands()) {
    operands.push_back(operand == nullptr ? Box{} : Box{operand->definition()->literal()->tensor});
  }
  std::vector<Box> results = evaluate_instruction(instruction, operands);
  Builder builder(*instruction.module(), &instruction);
  builder.set_origins(instruction.origins());
  for (size_t i = 0; i < results.size(); ++i) {
    Value* old = instruction.result(static_cast<int>(i));
    if (old->uses().empty()) continue;
    Value* literal = builder.literal(results[i].tensor());
    instruction.module()->replace_uses(old, literal);
    infer_users(*literal);
  }
  instruction.module()->erase(&instruction);
}

bool any_deferred(const Instruction& instruction) {
  for (const Value* operand : instruction.operands()) {
    if (operand != nullptr && operand->definition()->deferred()) return true;
  }
  return false;
}

int64_t operand_bytes(const Instruction& instruction) {
  int64_t bytes = 0;
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr) continue;
    const auto dims = constant_values(*operand->type().dims);
    bytes += bytes_for(operand->type().element, element_count(*dims));
  }
  return bytes;
}

bool fold_program(Program& program) {
  bool changed = false;
  for (const auto& module : program.modules()) {
    for (auto at = module->instructions().begin(); at != module->instructions().end();) {
      Instruction& instruction = **at++;
      if (fold_elements(instruction)) {
        changed = true;
        continue;
      }
      if (!can_fold(instruction)) continue;
      const int64_t made = result_bytes(instruction);
      const int64_t given = operand_bytes(instruction);
      if (made > kMostMadeBytes && made / 2 > given) continue;
      const bool large =
          made > kDeferredBytes || given > kDeferredBytes || any_deferred(instruction);
      if (large) {
        instruction.set_deferred(true);
      } else {
        fold(instruction);
      }
      changed = true;
    }
  }
  return changed;
}

}  // namespace

const Pass fold_constants{
    .name = "fold_constants",
    .doc = "Evaluates instructions whose operands are literals, and integers that are dims.",
    .run = fold_program,
};

}  // namespace lathe
