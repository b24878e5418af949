// SPDX-License-Identifier: MIT
#include "runtime/nudged.h"

#include <algorithm>
#include <random>
#include <set>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/ops.h"

namespace lathe {
namespace {

constexpr double kMostNudge = 0x1p-20;
constexpr std::string_view kSteps[] = {"floor", "ceil",  "round",   "sign",
                                       "mod",   "range", "hardmax", "thresholded_relu"};

bool is_f32(const Value* value) {
  return value != nullptr && value->type().is_ranked() && value->type().element == ElementType::f32;
}

bool jumps_to(const Instruction& instruction, bool comparisons) {
  for (const auto* body : instruction.bodies()) {
    for (const auto& inner : body->instructions()) {
      if (jumps_to(*inner, comparisons)) return true;
    }
  }
  if (std::ranges::none_of(instruction.operands(), is_f32)) return false;
  if (instruction.op() == ops::shape || instruction.op() == ops::size) return false;
  if (std::ranges::find(kSteps, instruction.op().name) != std::end(kSteps)) return true;
  return std::ranges::any_of(instruction.results(), [&](const Value& result) {
    const Type& type = result.type();
    if (!type.is_tensor()) return true;
    return type.element == ElementType::boolean ? comparisons : is_integer(type.element);
  });
}

// Instructions whose results a function that jumps depends on, and those functions.
std::set<const Instruction*> exact_instructions(const Module& module, bool comparisons) {
  std::set<const Instruction*> exact;
  std::vector<const Instruction*> open;
  for (const auto& instruction : module.instructions()) {
    if (jumps_to(*instruction, comparisons)) open.push_back(instruction.get());
  }
  while (!open.empty()) {
    const Instruction* next = open.back();
    open.pop_back();
    if (!exact.insert(next).second) continue;
    for (const Value* operand : next->operands()) {
      if (operand != nullptr && operand->definition() != nullptr) {
        open.push_back(operand->definition());
      }
    }
  }
  return exact;
}

bool is_literal(const Value& value) {
  const Instruction* source = value.definition();
  return source != nullptr && (source->deferred() || source->literal() != nullptr);
}

}  // namespace

bool jumps(const Instruction& instruction) { return jumps_to(instruction, true); }

std::unique_ptr<Program> make_nudged(const Program& program, uint64_t seed, bool comparisons) {
  std::unique_ptr<Program> out = program.clone();
  Module& module = out->main();
  const std::set<const Instruction*> exact = exact_instructions(module, !comparisons);
  std::vector<Instruction*> arithmetic;
  for (const auto& instruction : module.instructions()) {
    if (!exact.contains(instruction.get())) arithmetic.push_back(instruction.get());
  }
  int64_t counter = 0;
  for (Instruction* instruction : arithmetic) {
    Builder b(module, instruction);
    for (size_t i = 0; i < instruction->operands().size(); ++i) {
      Value* x = instruction->operands()[i];
      if (!is_f32(x) || is_literal(*x)) continue;
      Value* parts =
          b("random_uniform",
            {b.dims(*x->type().dims), b.scalar(ElementType::i64, static_cast<double>(counter++))},
            {{"low", -kMostNudge}, {"high", kMostNudge}, {"seed", static_cast<int64_t>(seed)}});
      instruction->set_operand(static_cast<int>(i), b("add", {x, b("mul", {x, parts})}));
    }
  }
  return out;
}

Tensor nudged(const Tensor& tensor, uint64_t seed) {
  if (tensor.type() != ElementType::f32) return tensor;
  Tensor out = tensor.clone();
  std::minstd_rand random(static_cast<std::minstd_rand::result_type>(seed));
  constexpr auto kMost = static_cast<float>(kMostNudge);
  std::uniform_real_distribution<float> part(-kMost, kMost);
  for (float& value : out.elements<float>()) value += value * part(random);
  return out;
}

}  // namespace lathe
