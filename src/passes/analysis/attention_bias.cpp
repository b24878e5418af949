// SPDX-License-Identifier: MIT
#include "passes/analysis/attention_bias.h"

#include <algorithm>

#include "ir/ops.h"
#include "passes/analysis/alibi_slopes.h"

namespace lathe {
namespace {

constexpr int kMaxBiasSteps = 16;  // def-use distance from a bias to its terms

// Adds the slopes of one more bias.
void join_slopes(const std::vector<double>& more, double scale, std::vector<double>& slopes) {
  const std::vector<double> before = std::move(slopes);
  const auto at = [](const std::vector<double>& list, size_t i) {
    return list.empty() ? 0 : list[list.size() == 1 ? 0 : i];
  };
  slopes.assign(std::max(more.size(), before.size()), 0);
  for (size_t i = 0; i < slopes.size(); ++i) slopes[i] = at(before, i) + at(more, i) * scale;
}

}  // namespace

void AttentionBias::narrow_window(int64_t tokens) {
  if (tokens > 0) window = window == 0 ? tokens : std::min(window, tokens);
}

bool AttentionBiases::join(const Value* value, double scale, AttentionBias& bias) const {
  return join(value, scale, bias, kMaxBiasSteps);
}

bool AttentionBiases::join_mask(const AffineValue& known, bool boolean, double scale,
                                AttentionBias& bias) const {
  if (known.is_constant()) return boolean ? known.yes != 0 : known.yes == 0;
  const std::optional<KeyMask> keys =
      key_mask(known, boolean, scale, extents_.past, extents_.past + extents_.tokens);
  if (!keys) return false;
  bias.causal = true;
  bias.narrow_window(keys->window);
  return true;
}

bool AttentionBiases::join(const Value* value, double scale, AttentionBias& bias, int steps) const {
  const bool boolean = value->type().element == ElementType::boolean;
  if (const AffineValue* known = flow_.find(value); known != nullptr && !known->linear) {
    return join_mask(*known, boolean, scale, bias);
  }
  const Instruction* definition = value->definition();
  if (boolean || definition == nullptr || steps == 0) return false;
  if (const auto slopes = alibi_slopes_of_scores(value, flow_)) {
    const size_t heads = std::max(slopes->size(), bias.slopes.size());
    for (const size_t count : {slopes->size(), bias.slopes.size()}) {
      if (count > 1 && count != heads) return false;
    }
    join_slopes(*slopes, scale, bias.slopes);
    return true;
  }
  const Op& op = definition->op();
  if (op == ops::add) {
    return join(operand(*definition, 0), scale, bias, steps - 1) &&
           join(operand(*definition, 1), scale, bias, steps - 1);
  }
  if (op == ops::where) {
    const Value* rest = unmasked(*definition, scale, bias);
    return rest != nullptr && join(rest, scale, bias, steps - 1);
  }
  if (const auto by = factor_of(*definition, flow_)) {
    return join(by->first, scale * by->second, bias, steps - 1);
  }
  const Value* first = operand(*definition, 0);
  const bool same =
      passes_on(op) || op == ops::cast ||
      ((op == ops::unsqueeze || op == ops::squeeze || op == ops::reshape) && alike(value, first));
  return same && join(first, scale, bias, steps - 1);
}

Value* AttentionBiases::unmasked(const Instruction& where, double scale,
                                 AttentionBias& bias) const {
  for (const size_t low : {2, 1}) {
    const std::optional<double> value = constant_of(operand(where, low), flow_);
    const AffineValue* condition = flow_.find(operand(where, 0));
    if (!value || condition == nullptr || *value * scale > kMasked) continue;
    AffineValue allowed = *condition;
    if (low == 1) {
      if (allowed.conditions.size() != 1) return nullptr;
      Linear& one = allowed.conditions.front();
      for (int64_t& step : one.steps) step = -step;
      one.offset = Dim(-1) - one.offset;
    }
    const std::optional<KeyMask> keys =
        key_mask(allowed, true, 1, extents_.past, extents_.past + extents_.tokens);
    if (!keys) return nullptr;
    bias.causal = true;
    bias.narrow_window(keys->window);
    return operand(where, 3 - low);
  }
  return nullptr;
}

}  // namespace lathe
