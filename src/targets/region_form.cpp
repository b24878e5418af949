// SPDX-License-Identifier: MIT
#include "targets/region_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/interpret/access.h"

namespace lathe {

std::string why_not_in_register(const Instruction& instruction) {
  const ElementType result = instruction.result()->type().element;
  return is_floating(result) || interpret::register_type(compute_type(result)) == result
             ? ""
             : fmt::format("the result is {}", to_string(result));
}

std::string why_no_elementwise_body(const Instruction& region, const RegionLimits& limits,
                                    std::string (*why_not)(const Instruction&)) {
  const Module& body = *region.bodies()[0];
  const auto& instructions = body.instructions();
  if (body.results().size() != 1 || instructions.empty() ||
      body.results()[0] != instructions.back()->result()) {
    return "its last instruction is not its result";
  }
  if (region.operands().size() > limits.operands) return "it has too many operands";
  if (instructions.size() > limits.instructions) return "it has too many instructions";
  for (const auto& instruction : instructions) {
    std::string reason = why_not(*instruction);
    if (!reason.empty()) return fmt::format("{}: {}", instruction->op().name, reason);
    if (instruction->result()->type().dims != region.result()->type().dims) {
      return "its instructions have several shapes";
    }
  }
  return "";
}

std::string why_not_chain(const Module& body, const Instruction& anchor,
                          const std::function<std::string(const Instruction&, int)>& why_no_step,
                          const std::function<bool(const Instruction&)>& is_side) {
  const Value* value = anchor.result();
  bool follows = false;  // what precedes the anchor is no part of the chain
  for (const auto& next : body.instructions()) {
    if (next.get() == &anchor) follows = true;
    if (next.get() == &anchor || !follows || (is_side && is_side(*next))) continue;
    const auto at = std::ranges::find(next->operands(), value);
    if (at == next->operands().end() || value->uses().size() != 1) {
      return "its instructions do not form a chain";
    }
    std::string reason = why_no_step(*next, static_cast<int>(at - next->operands().begin()));
    if (!reason.empty()) return reason;
    value = next->result();
  }
  return body.results().size() == 1 && body.results()[0] == value
             ? ""
             : "its last instruction is not its result";
}

}  // namespace lathe
