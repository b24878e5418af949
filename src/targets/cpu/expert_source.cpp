// SPDX-License-Identifier: MIT
#include "targets/cpu/expert_source.h"

#include <algorithm>

#include "ir/ops.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {
namespace {

constexpr int kFc1 = 2, kFc3 = 6;

bool has_known_form(const Tensor& tensor, bool widened) {
  const ElementType type = tensor.type();
  const bool halves = type == ElementType::bf16 || type == ElementType::f16;
  return tensor.rank() == 3 && tensor.count() > 0 && tensor.is_dense() &&
         (halves || (type == ElementType::f32 && !widened));
}

// Appends the constants under a value; false if there is anything else.
bool add_parts(const Value& value, bool transposed, bool widened, ExpertSource& source) {
  const Instruction* made = value.definition();
  if (made == nullptr) return false;
  if (made->literal() != nullptr) {
    const Tensor& tensor = made->literal()->tensor;
    const bool alike = source.parts.empty() || (source.transposed == transposed &&
                                                source.parts[0]->type() == tensor.type());
    source.transposed = transposed;
    source.parts.push_back(&tensor);
    return alike && !made->literal()->bindable && has_known_form(tensor, widened);
  }
  if (!made->deferred() || made->operands().empty()) return false;
  const Value& read = *made->operands()[0];
  if (made->op() == ops::concat) {
    return attribute<int64_t>(*made, "axis") == 0 &&
           std::ranges::all_of(made->operands(), [&](const Value* part) {
             return add_parts(*part, transposed, widened, source);
           });
  }
  if (made->op() == ops::transpose) {
    const auto order = attribute<std::vector<int64_t>>(*made, "permutation");
    return order == std::vector<int64_t>{0, 2, 1} && add_parts(read, !transposed, widened, source);
  }
  return made->op() == ops::cast && value.type().element == ElementType::f32 &&
         add_parts(read, transposed, true, source);
}

std::optional<ExpertSource> source_of(const Instruction& moe, int operand) {
  ExpertSource source;
  const Value& value = *moe.operands()[static_cast<size_t>(operand)];
  return add_parts(value, false, false, source) ? std::optional(std::move(source)) : std::nullopt;
}

}  // namespace

std::optional<ExpertSource> expert_source(const Instruction& instruction, int operand) {
  const auto has = [&](int i) { return has_operand(instruction, static_cast<size_t>(i)); };
  const bool weights = instruction.op() == ops::moe && operand >= kFc1 && operand <= kFc3 &&
                       operand % 2 == 0 && has(operand);
  if (!weights) return std::nullopt;
  const Instruction* made = instruction.operands()[static_cast<size_t>(operand)]->definition();
  if (made == nullptr || !made->deferred()) return std::nullopt;
  std::optional<ExpertSource> source = source_of(instruction, operand);
  const int other = operand == kFc1 ? kFc3 : kFc1;  // in the same matrix
  if (!source || operand == kFc1 + 2 || !has(other)) return source;
  const std::optional<ExpertSource> beside = source_of(instruction, other);
  const bool alike = beside && beside->parts[0]->type() == source->parts[0]->type();
  return alike ? source : std::nullopt;
}

}  // namespace lathe::cpu
