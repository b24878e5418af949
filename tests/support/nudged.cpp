// SPDX-License-Identifier: MIT
#include "tests/support/nudged.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace lathe::test {
namespace {

constexpr double kPart = 0x1p-20;
constexpr std::string_view kJumps[] = {"floor",   "ceil",          "round", "sign", "less",
                                       "greater", "less_or_equal", "equal", "cast"};

// Instructions whose results a function that jumps depends on, and those functions.
std::set<const Instruction*> exact_instructions(const Module& module) {
  std::set<const Instruction*> exact;
  std::vector<const Instruction*> open;
  for (const auto& instruction : module.instructions()) {
    if (std::ranges::find(kJumps, instruction->op().name) != std::end(kJumps)) {
      open.push_back(instruction.get());
    }
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

bool is_f32(const Value* value) {
  return value != nullptr && value->type().is_ranked() && value->type().element == ElementType::f32;
}

}  // namespace

std::unique_ptr<Program> make_nudged(const Program& program, uint64_t seed) {
  std::unique_ptr<Program> nudged = program.clone();
  Module& module = nudged->main();
  const std::set<const Instruction*> exact = exact_instructions(module);
  std::vector<Instruction*> arithmetic;
  for (const auto& instruction : module.instructions()) {
    if (!exact.contains(instruction.get())) arithmetic.push_back(instruction.get());
  }
  int64_t counter = 0;
  for (Instruction* instruction : arithmetic) {
    Builder b(module, instruction);
    for (size_t i = 0; i < instruction->operands().size(); ++i) {
      Value* x = instruction->operands()[i];
      if (!is_f32(x)) continue;
      Value* parts =
          b("random_uniform",
            {b.dims(*x->type().dims), b.scalar(ElementType::i64, static_cast<double>(counter++))},
            {{"low", -kPart}, {"high", kPart}, {"seed", static_cast<int64_t>(seed)}});
      instruction->set_operand(static_cast<int>(i), b("add", {x, b("mul", {x, parts})}));
    }
  }
  return nudged;
}

}  // namespace lathe::test
