// SPDX-License-Identifier: MIT
#include "passes/narrow_rounded.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"
#include "ir/ops.h"
#include "ops/op_origin.h"
#include "passes/fuse_regions.h"

namespace lathe {
namespace {

constexpr int kQkv = 3;

bool is_f32(const Value& value) {
  return value.type().is_tensor() && !value.type().is_boxed() &&
         value.type().element == ElementType::f32;
}

bool computes_in_bf16(const Instruction& instruction) {
  return required_attribute<std::string>(instruction, "compute_type") == "bf16";
}

bool is_product(const Instruction& instruction) {
  return is_any_of(instruction.op(), {&ops::matmul, &ops::gemm});
}

bool moves_elements(const Instruction& instruction) {
  return is_any_of(instruction.op(), {&ops::reshape, &ops::transpose, &ops::squeeze,
                                      &ops::unsqueeze, &ops::slice, &ops::split}) &&
         !instruction.deferred();
}

// What is moved.
const Value& source_of(const Value& value) {
  const Value* at = &value;
  while (at->definition() != nullptr && moves_elements(*at->definition())) {
    at = at->definition()->operands()[0];
  }
  return *at;
}

class Narrower {
 public:
  explicit Narrower(Module& module) : module_(module) {}

  bool run() {
    find_attention();
    bool changed = false;
    for (auto at = module_.instructions().begin(); at != module_.instructions().end();) {
      Instruction& instruction = **at++;
      Builder b(module_, at == module_.instructions().end() ? nullptr : at->get());
      b.set_origins(instruction.origins());
      changed |= rewrite(instruction, b);
    }
    return changed;
  }

 private:
  // Attention in bf16 whose queries, keys and values no other instruction reads exactly.
  void find_attention() {
    for (const auto& instruction : module_.instructions()) {
      const auto& operands = instruction->operands();
      if (instruction->op() != ops::attention || !computes_in_bf16(*instruction) ||
          !std::all_of(operands.begin(), operands.begin() + kQkv,
                       [](const Value* value) { return value != nullptr && is_f32(*value); }) ||
          std::any_of(instruction->results().begin() + 1, instruction->results().end(),
                      [](const Value& result) { return !result.uses().empty(); })) {
        continue;
      }
      attention_.insert(instruction.get());
    }
    for (size_t before = 0; before != attention_.size();) {
      before = attention_.size();
      std::erase_if(attention_, [&](const Instruction* instruction) {
        const auto& operands = instruction->operands();
        return !all_round(*instruction->result()) ||
               !std::all_of(operands.begin(), operands.begin() + kQkv, [&](const Value* value) {
                 const Value& source = source_of(*value);
                 return source.definition() != nullptr && is_stored(*source.definition());
               });
      });
    }
  }

  bool rounds(const Instruction& user, int operand) const {
    if (is_product(user)) return operand == 0 && computes_in_bf16(user);
    return operand < kQkv && attention_.contains(&user);
  }

  bool all_round(const Value& value) const {
    return is_f32(value) && !value.uses().empty() &&
           std::ranges::all_of(value.uses(), [&](const Use& use) {
             if (use.user == nullptr) return false;
             if (!moves_elements(*use.user)) return rounds(*use.user, use.index);
             return use.index == 0 &&
                    std::ranges::all_of(use.user->results(), [&](const Value& result) {
                      return result.uses().empty() || all_round(result);
                    });
           });
  }

  // True if the cast of its result joins its launch.
  bool is_stored(const Instruction& instruction) const {
    const bool casts = is_product(instruction) || is_elementwise(instruction.op());
    return (casts || attention_.contains(&instruction)) && !instruction.deferred() &&
           all_round(*instruction.result());
  }

  bool is_narrow(const Value* value) const { return narrow_.contains(value); }

  bool rewrite(Instruction& instruction, Builder& b) {
    const auto& operands = instruction.operands();
    if (moves_elements(instruction) && is_narrow(operands[0])) {
      copy(instruction, 1, b);
      return true;
    }
    if (attention_.contains(&instruction)) {
      copy(instruction, kQkv, b);
      return true;
    }
    bool changed = false;
    if (is_product(instruction) && rounds(instruction, 0) && is_narrow(operands[0])) {
      Builder before(module_, &instruction);
      before.set_origins(instruction.origins());
      instruction.set_operand(0, before.cast(narrow_.at(operands[0]), ElementType::f32));
      changed = true;
    }
    if (instruction.results().empty() || !is_stored(instruction)) return changed;
    const Value* result = instruction.result();
    narrow_[result] = b.cast(instruction.result(), ElementType::bf16);
    return true;
  }

  // The instruction with its first operands in bf16.
  void copy(const Instruction& instruction, int count, Builder& b) {
    std::vector<Value*> operands(instruction.operands().begin(), instruction.operands().end());
    for (int i = 0; i < count; ++i) {
      Value*& operand = operands[static_cast<size_t>(i)];
      operand = narrow_.at(operand);
    }
    const auto results = static_cast<int>(instruction.results().size());
    Instruction* fresh =
        b.add(instruction.op(), std::move(operands), instruction.attributes(), {}, results);
    for (int i = 0; i < results; ++i) narrow_[instruction.result(i)] = fresh->result(i);
  }

  Module& module_;
  std::set<const Instruction*> attention_;
  std::map<const Value*, Value*> narrow_;
};

}  // namespace

const Pass narrow_rounded{.name = "narrow_rounded",
                          .doc = "Stores values in bf16 that all readers round to it.",
                          .run = [](Program& program) {
                            bool changed = false;
                            for (size_t i = 0; i < program.modules().size(); ++i) {
                              changed |= Narrower(*program.modules()[i]).run();
                            }
                            return changed;
                          }};

}  // namespace lathe
