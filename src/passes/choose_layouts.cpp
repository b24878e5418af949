// SPDX-License-Identifier: MIT
#include "passes/choose_layouts.h"

#include <algorithm>
#include <set>

#include "ir/ops.h"

namespace lathe {
namespace {

std::vector<int> channels_last(int rank) {
  std::vector<int> layout{0};
  for (int axis = 2; axis < rank; ++axis) layout.push_back(axis);
  layout.push_back(1);
  return layout;
}

// True if the two orders differ in memory.
bool has_positions(const Type& type) {
  return std::any_of(type.dims->begin() + 2, type.dims->end(),
                     [](const Dim& dim) { return !(dim == Dim(1)); });
}

bool may_differ(const Value& value) {
  constexpr int kMinRank = 3, kMaxAxes = 5;
  const Type& type = value.type();
  return !type.is_boxed() && type.is_ranked() && type.rank() >= kMinRank &&
         type.rank() <= kMaxAxes && has_positions(type) &&
         std::ranges::none_of(value.uses(), [](const Use& use) { return use.user == nullptr; });
}

bool follows_channels_last(const Instruction& instruction) {
  const std::vector<int> wanted = channels_last(instruction.result()->type().rank());
  const auto is_last = [&](const Value* operand) {
    return operand != nullptr && operand->layout() == wanted;
  };
  if (is_last(instruction.operands()[0])) return true;
  return std::ranges::any_of(instruction.operands(), [&](const Value* operand) {
    return is_last(operand) && operand->type().dims == instruction.result()->type().dims;
  });
}

// The order in which the only readers, equal transposes that keep the last axis, read the value.
std::vector<int> transposed_layout(const Value& value) {
  const Integers* first = nullptr;
  for (const Use& use : value.uses()) {
    if (use.user == nullptr || use.user->op() != ops::transpose) return {};
    const auto& own = std::get<Integers>(*find_attribute(use.user->attributes(), "permutation"));
    if (first != nullptr && *first != own) return {};
    first = &own;
  }
  const int rank = value.type().is_ranked() ? value.type().rank() : 0;
  if (first == nullptr || std::ssize(*first) != rank || first->back() != rank - 1) return {};
  return {first->begin(), first->end()};
}

bool choose(Module& module, const std::function<LayoutUse(const Instruction&)>& use) {
  bool changed = false;
  for (const auto& instruction : module.instructions()) {
    if (instruction->op().structural != Structural::none || instruction->deferred() ||
        instruction->operands().empty() || instruction->results().empty()) {
      continue;
    }
    Value& result = *instruction->result();
    if (!result.layout().empty() || result.type().is_boxed()) continue;
    const LayoutUse own = use(*instruction);
    if (own == LayoutUse::any_rows) {
      const std::vector<int> layout = transposed_layout(result);
      if (!layout.empty()) result.set_layout(layout);
      changed |= !layout.empty();
      continue;
    }
    if (!may_differ(result)) continue;
    if (own == LayoutUse::as_type) continue;
    if (own == LayoutUse::follows && !follows_channels_last(*instruction)) continue;
    result.set_layout(channels_last(result.type().rank()));
    changed = true;
  }
  return changed;
}

}  // namespace

Pass choose_layouts(std::function<LayoutUse(const Instruction& instruction)> use) {
  return {.name = "choose_layouts",
          .doc = "Puts the channels of images last in memory where kernels write that order.",
          .run = [use = std::move(use)](Program& program) {
            std::set<const Module*> regions;
            for (const auto& module : program.modules()) {
              for (const auto& instruction : module->instructions()) {
                if (instruction->op() == ops::region) regions.insert(instruction->bodies()[0]);
              }
            }
            bool changed = false;
            for (const auto& module : program.modules()) {
              if (!regions.contains(module.get())) changed |= choose(*module, use);
            }
            return changed;
          }};
}

}  // namespace lathe
