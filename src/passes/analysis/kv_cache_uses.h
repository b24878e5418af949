// SPDX-License-Identifier: MIT
// The ways between a cache and what attends to it, as exporters write them: turned, repeated for
// groups of heads, scaled, in heads or flat.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "passes/analysis/affine_analysis.h"

namespace lathe {

struct TokenExtents {
  Dim past;  // rows before the new ones
  Dim rows;
};

// A cache on its way into a product or an attention.
struct KvCacheUse {
  Value* past = nullptr;
  Value* fresh = nullptr;  // new rows; null: a parameter as it is
  Value* present = nullptr;
  int64_t heads = 0;   // as what reads it has them; 0: as the new rows do
  int64_t groups = 1;  // how often each head is repeated
  int64_t window = 0;  // rows that a ring holds; 0: all are kept
  double scale = 1;
};

Value* operand(const Instruction& instruction, size_t i);
std::string_view op_of(const Value* value);  // empty: a parameter
bool passes_on(std::string_view op);
// Also what masks or guards weights on their way from softmax to values.
bool keeps_weights(std::string_view op);

// The one value of all elements.
std::optional<double> constant_of(const Value* value, const AffineAnalysis& flow);
// x · c, c · x or x / c: the other operand and the factor.
std::optional<std::pair<Value*, double>> factor_of(const Instruction& instruction,
                                                   const AffineAnalysis& flow);

// Back to concat(past, new) along the rows, to the rows written behind those before in a cache of
// fixed extents, to an attention that gives its cache, or to a parameter. `turned`: the last axes
// are swapped.
std::optional<KvCacheUse> trace_kv_cache(Value* value, bool turned, const AffineAnalysis& flow,
                                         const TokenExtents& extents);

// Of equal extents but for a batch of one.
bool alike(const Value* a, const Value* b);

// What attends to a cache: attentions, or the softmaxes between two products; in no order.
std::vector<Instruction*> cache_readers(Value* cache);

}  // namespace lathe
