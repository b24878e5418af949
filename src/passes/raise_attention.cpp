// SPDX-License-Identifier: MIT
#include "passes/raise_attention.h"

#include <cmath>

#include "ir/ops.h"
#include "ir/rule.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

constexpr int kRank = 4;  // [batch, heads, positions, size]

bool is_used_once(const Value& value) { return value.uses().size() == 1; }

// Skips multiplications by and divisions by constants that keep the type; `scale` takes them.
Value* without_factors(Value* value, double& scale) {
  while (true) {
    const Instruction* product = defined_by(*value, ops::mul);
    const Instruction* quotient = defined_by(*value, ops::div);
    const Instruction* at = product != nullptr ? product : quotient;
    if (at == nullptr) return value;
    Value* inner = nullptr;
    for (size_t i = 0; i < 2 && inner == nullptr; ++i) {
      if (quotient != nullptr && i == 0) continue;
      const std::optional<double> factor = number_of(*at->operands()[i]);
      Value* other = at->operands()[1 - i];
      if (!factor || !(other->type() == value->type())) continue;
      scale = product != nullptr ? scale * *factor : scale / *factor;
      inner = other;
    }
    if (inner == nullptr) return value;
    value = inner;
  }
}

bool is_matrix_of_heads(const Value& value, ElementType type) {
  return value.type().is_ranked() && value.type().rank() == kRank && value.type().element == type;
}

// Equal leading dims: attention does not broadcast heads of equal count.
bool has_heads_of(const Value& value, const Value& other) {
  return (*value.type().dims)[0] == (*other.type().dims)[0] &&
         (*value.type().dims)[1] == (*other.type().dims)[1];
}

// True if the mask broadcasts to the scores without more axes.
bool broadcasts_to(const Value& mask, const Value& scores) {
  if (!mask.type().is_ranked() || mask.type().rank() > kRank) return false;
  const size_t skipped = static_cast<size_t>(kRank - mask.type().rank());
  for (size_t axis = 0; axis < mask.type().dims->size(); ++axis) {
    const Dim& own = (*mask.type().dims)[axis];
    if (!(own == Dim(1)) && !(own == (*scores.type().dims)[axis + skipped])) return false;
  }
  return true;
}

// The operands of an addition of scores [batch, heads, queries, keys] and a mask.
struct Masked {
  Value* scores;
  Value* mask = nullptr;
};

Masked split_mask(Value* value) {
  const Instruction* sum = defined_by(*value, ops::add);
  if (sum == nullptr || !is_used_once(*value)) return {value};
  for (size_t i = 0; i < 2; ++i) {
    Value* scores = sum->operands()[i];
    Value* mask = sum->operands()[1 - i];
    double ignored = 1;
    const bool is_product = defined_by(*without_factors(scores, ignored), ops::matmul) != nullptr;
    if (is_product && scores->type() == value->type() && broadcasts_to(*mask, *scores) &&
        mask->type().element == scores->type().element) {
      return {scores, mask};
    }
  }
  return {value};
}

Value* raise(Match& match) {
  Value* weights = match["weights"];
  Value* v = match["v"];
  const ElementType type = match.root().result()->type().element;
  const bool computes =
      type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
  if (!computes || !is_used_once(*weights) || !is_matrix_of_heads(*weights, type) ||
      !is_matrix_of_heads(*v, type) || !has_heads_of(*v, *weights)) {
    return nullptr;
  }
  const Instruction& softmax = *weights->definition();
  const auto axis = std::get<int64_t>(*find_attribute(softmax.attributes(), "axis"));
  if (axis != -1 && axis != kRank - 1) return nullptr;
  const Masked masked = split_mask(softmax.operands()[0]);
  double scale = 1;
  const Value* product = without_factors(masked.scores, scale);
  const Instruction* scores = defined_by(*product, ops::matmul);
  if (scores == nullptr || !is_used_once(*product)) return nullptr;
  Value* q = without_factors(scores->operands()[0], scale);
  Value* k = without_factors(scores->operands()[1], scale);
  const bool fits = is_matrix_of_heads(*q, type) && is_matrix_of_heads(*k, type) &&
                    has_heads_of(*q, *weights) && has_heads_of(*k, *weights) &&
                    std::isfinite(scale) && scale > 0;
  if (!fits) return nullptr;
  Builder& b = match.b;
  return b
      .add(ops::attention, {q, b.transpose(k, {0, 1, 3, 2}), v, masked.mask}, {{"scale", scale}})
      ->result();
}

const RuleTable& attention_rules() {
  static const RuleTable table({
      {"raise_attention",
       op(ops::matmul, {op(ops::softmax, {value("scores")}).named("weights"), value("v")}), raise},
  });
  return table;
}

}  // namespace

const Pass raise_attention{
    .name = "raise_attention",
    .doc = "Recognises attention without a KV cache.",
    .run = [](Program& program) { return attention_rules().apply(program); },
};

}  // namespace lathe
