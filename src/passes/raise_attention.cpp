// SPDX-License-Identifier: MIT
#include "passes/raise_attention.h"

#include <algorithm>
#include <cmath>

#include "ir/ops.h"
#include "ir/rule.h"
#include "passes/value_queries.h"

namespace lathe {
namespace {

constexpr int kRank = 4;  // [batch, heads, positions, size]
constexpr int kFlat = 3;  // [batch · heads, positions, size]

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

// The type must be that of the weights and leading dims equal: attention does not broadcast
// heads of equal count.
bool has_heads_of(const Value& value, const Value& weights) {
  const Type &own = value.type(), &type = weights.type();
  return own.is_ranked() && own.rank() == type.rank() && own.element == type.element &&
         std::equal(own.dims->begin(), own.dims->end() - 2, type.dims->begin());
}

// True if the mask broadcasts to the scores without more axes.
bool broadcasts_to(const Value& mask, const Value& scores) {
  if (!mask.type().is_ranked() || mask.type().rank() > scores.type().rank()) return false;
  const size_t skipped = static_cast<size_t>(scores.type().rank() - mask.type().rank());
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
  // Instead of `mask`: positions where the scores are replaced by `fill`.
  Value* filled = nullptr;
  double fill = 0;
};

bool is_scaled_product(Value* scores) {
  double ignored = 1;
  return defined_by(*without_factors(scores, ignored), ops::matmul) != nullptr;
}

// where(filled, fill, scores): the fill plus scores, which it absorbs if it is far from them.
std::optional<Masked> split_fill(const Value& value) {
  constexpr double kAbsorbs = -1e12;  // scores up to 2^15 in f32
  const Instruction* choice = defined_by(value, ops::where);
  if (choice == nullptr || value.type().element != ElementType::f32) return std::nullopt;
  Value* filled = choice->operands()[0];
  Value* scores = choice->operands()[2];
  const std::optional<double> fill = number_of(*choice->operands()[1]);
  const bool fits = fill && *fill <= kAbsorbs && is_scaled_product(scores) &&
                    scores->type() == value.type() && broadcasts_to(*filled, *scores);
  return fits ? std::optional(Masked{scores, nullptr, filled, *fill}) : std::nullopt;
}

Masked split_mask(Value* value) {
  if (!is_used_once(*value)) return {value};
  if (const std::optional<Masked> filled = split_fill(*value)) return *filled;
  const Instruction* sum = defined_by(*value, ops::add);
  if (sum == nullptr) return {value};
  for (size_t i = 0; i < 2; ++i) {
    Value* scores = sum->operands()[i];
    Value* mask = sum->operands()[1 - i];
    if (is_scaled_product(scores) && scores->type() == value->type() &&
        broadcasts_to(*mask, *scores) && mask->type().element == scores->type().element) {
      return {scores, mask};
    }
  }
  return {value};
}

// The softmax of weights, which may be guarded: where(is_nan(softmax), 0, softmax) is what
// attention has for a query without keys. Null if there is none.
Value* softmax_of(Value* weights) {
  if (!is_used_once(*weights)) return nullptr;
  if (defined_by(*weights, ops::softmax) != nullptr) return weights;
  const Instruction* guard = defined_by(*weights, ops::where);
  if (guard == nullptr || number_of(*guard->operands()[1]) != 0) return nullptr;
  Value* softmax = guard->operands()[2];
  const Instruction* is_nan = defined_by(*guard->operands()[0], ops::is_nan);
  const bool fits = defined_by(*softmax, ops::softmax) != nullptr && is_nan != nullptr &&
                    is_nan->operands()[0] == softmax && is_used_once(*is_nan->result()) &&
                    softmax->uses().size() == 2 && softmax->type() == weights->type();
  return fits ? softmax : nullptr;
}

// The summand of the scores; null without a mask.
Value* mask_of(Builder& b, const Masked& masked) {
  if (masked.filled == nullptr) return masked.mask;
  const ElementType type = masked.scores->type().element;
  return b(ops::where, {masked.filled, b.scalar(type, masked.fill), b.scalar(type, 0)});
}

Value* attend(Builder& b, std::vector<Value*> operands, double scale) {
  return b.add(ops::attention, std::move(operands), {{"scale", scale}})->result();
}

Value* raise(Match& match) {
  Value* weights = softmax_of(match["weights"]);
  Value* v = match["v"];
  const ElementType type = match.root().result()->type().element;
  const bool computes =
      type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
  if (!computes || weights == nullptr || !weights->type().is_ranked() ||
      weights->type().element != type || !has_heads_of(*v, *weights)) {
    return nullptr;
  }
  const int rank = weights->type().rank();
  if (rank != kRank && rank != kFlat) return nullptr;
  const Instruction& softmax = *weights->definition();
  const auto axis = std::get<int64_t>(*find_attribute(softmax.attributes(), "axis"));
  if (axis != -1 && axis != rank - 1) return nullptr;
  const Masked masked = split_mask(softmax.operands()[0]);
  double scale = 1;
  const Value* product = without_factors(masked.scores, scale);
  const Instruction* scores = defined_by(*product, ops::matmul);
  if (scores == nullptr || !is_used_once(*product)) return nullptr;
  Value* q = without_factors(scores->operands()[0], scale);
  Value* k = without_factors(scores->operands()[1], scale);
  const bool fits =
      has_heads_of(*q, *weights) && has_heads_of(*k, *weights) && std::isfinite(scale) && scale > 0;
  if (!fits) return nullptr;
  Builder& b = match.b;
  Value* mask = mask_of(b, masked);
  if (rank == kRank) return attend(b, {q, b.transpose(k, {0, 1, 3, 2}), v, mask}, scale);
  // The heads of one sequence; masks broadcast alike.
  Value* axis_of_one = b.integers({0});
  const auto of_one = [&](Value* x) { return b(ops::unsqueeze, {x, axis_of_one}); };
  Value* y = attend(b, {of_one(q), of_one(b.transpose(k, {0, 2, 1})), of_one(v), mask}, scale);
  return b(ops::squeeze, {y, axis_of_one});
}

const RuleTable& attention_rules() {
  static const RuleTable table({
      {"raise_attention", op(ops::matmul, {value("weights"), value("v")}), raise},
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
