// SPDX-License-Identifier: MIT
#include "passes/analysis/token_axis.h"

#include <algorithm>

#include "ir/ops.h"
#include "ops/token_step.h"

namespace lathe {
namespace {

TokenAxis judge(const TokenStep& s) {
  for (const auto& result : s.instruction().results()) {
    if (!result.type().is_tensor() || !result.type().is_ranked())
      return not_token_wise("a result has no rank");
  }
  return tokens_of(s);
}

// Values computed from sizes alone, such as a range, distinguish tokens by position.
bool depends_on(const Dim& dim, const std::string& symbol) {
  std::vector<SymbolRef> symbols;
  dim.collect_symbols(symbols);
  return std::ranges::any_of(symbols, [&](const SymbolRef& s) { return s->name == symbol; });
}

bool depends_on(const Instruction& instruction, const std::string& symbol) {
  for (const Value* operand : instruction.operands()) {
    if (operand == nullptr || !operand->elements()) continue;
    for (const Dim& dim : *operand->elements()) {
      if (depends_on(dim, symbol)) return true;
    }
  }
  for (const auto& result : instruction.results()) {
    if (!result.type().is_tensor() || !result.type().is_ranked()) continue;
    for (const Dim& dim : *result.type().dims) {
      if (depends_on(dim, symbol)) return true;
    }
  }
  return false;
}

// True for a result that is the next version of an operand's state.
bool is_version(const Value& result) {
  const auto& updates = result.definition()->op().updates;
  return std::ranges::find(updates, result.index(), &StateUpdate::result) != updates.end();
}

}  // namespace

TokenAxes trace_tokens(const Module& main, const std::map<const Value*, int>& inputs) {
  TokenAxes flow;
  flow.axes = inputs;
  const auto& [first, axis] = *inputs.begin();
  const Dim extent = (*first->type().dims)[static_cast<size_t>(axis)];
  const SymbolRef symbol = extent.as_symbol();
  for (const auto& instruction : main.instructions()) {
    const TokenStep step(*instruction, flow.axes, extent);
    bool any = false;
    for (size_t i = 0; i < step.count(); ++i) any = any || step.axis(i).has_value();
    if (!any) {
      const bool known = std::ranges::all_of(instruction->results(), [](const Value& result) {
        return result.elements().has_value();
      });
      if (!known && symbol != nullptr && depends_on(*instruction, symbol->name)) {
        flow.blocking = instruction.get();
        flow.reason = "it depends on the number of tokens";
        return flow;
      }
      continue;
    }
    // Sizes of the token axis are symbolic: inference evaluates these ops.
    if (is_any_of(instruction->op(), {&ops::shape, &ops::size})) continue;
    const TokenAxis verdict = judge(step);
    if (!verdict.axis) {
      flow.blocking = instruction.get();
      flow.reason = verdict.reason;
      return flow;
    }
    for (const Value& result : instruction->results()) {
      if (!is_version(result)) flow.axes[&result] = *verdict.axis;
    }
  }
  return flow;
}

}  // namespace lathe
