// SPDX-License-Identifier: MIT
// Traces a KV cache to the attention that reads it, through transposes, GQA repeats, scales and
// reshapes.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "passes/analysis/affine_analysis.h"

namespace lathe {

struct TokenExtents {
  Dim past;    // cached tokens
  Dim tokens;  // new tokens
};

// A KV cache as one operand of a matmul or attention reads it.
struct KvCacheUse {
  Value* past = nullptr;
  Value* fresh = nullptr;  // new tokens' keys or values; null: the cache is a parameter
  Value* present = nullptr;
  int64_t heads = 0;   // heads of the operand; 0: as in `fresh`
  int64_t groups = 1;  // repeats of each head (GQA)
  int64_t window = 0;  // capacity of a ring buffer, in tokens; 0: unlimited
  double scale = 1;
};

Value* operand(const Instruction& instruction, size_t i);
const Op* op_of(const Value* value);  // null for a parameter
bool passes_on(const Op& op);
// passes_on() and the ops that mask or guard attention weights between softmax and values.
bool keeps_weights(const Op& op);

// The value of a tensor whose elements are all equal.
std::optional<double> constant_of(const Value* value, const AffineAnalysis& flow);
// Matches x · c, c · x and x / c: returns x and the factor.
std::optional<std::pair<Value*, double>> factor_of(const Instruction& instruction,
                                                   const AffineAnalysis& flow);

// Traces `value` back to the source of a KV cache: concat(past, new) along the tokens,
// tensor_scatter behind the past, an attention that returns its cache, or a parameter.
// `transposed`: the last two axes are swapped.
std::optional<KvCacheUse> trace_kv_cache(Value* value, bool transposed, const AffineAnalysis& flow,
                                         const TokenExtents& extents);

// True for equal shapes, apart from a leading batch of one.
bool alike(const Value* a, const Value* b);

// Readers of a cache, unordered: attention ops, or softmaxes between two matmuls.
std::vector<Instruction*> cache_readers(Value* cache);

}  // namespace lathe
