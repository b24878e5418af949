// SPDX-License-Identifier: MIT
// Finds attention over a cache however an exporter wrote it: as one operator, or as product,
// softmax and product of concatenated pasts, or of rows written into a cache of fixed extents.
#pragma once

#include <string>
#include <vector>

#include "ops/sequence_step.h"
#include "passes/analysis/attention_bias.h"

namespace lathe {

// Causal attention of new rows to a cache and themselves. Rows lie flat [batch, rows, heads · size]
// or in heads [batch, heads, rows, size]; the result's batch of one may be left out there.
struct CachedAttention : AttentionBias {
  Value* query = nullptr;
  Value* key = nullptr;  // new rows
  Value* value = nullptr;
  Value* past_key = nullptr;
  Value* past_value = nullptr;
  Value* present_key = nullptr;
  Value* present_value = nullptr;
  Value* result = nullptr;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  double scale = 0;  // 0: one over the root of the head size
  double softcap = 0;
  // Rows that are shared are appended by another attention; across, keys and values are parameters.
  CacheRole role = CacheRole::appended;
};

// What is in the way.
struct NotAttention {
  const Instruction* instruction = nullptr;
  std::string why;
};
// An instruction and what it does, for people.
std::string describe(const Instruction& instruction, std::string_view why);

// Every attention over the cache that this instruction makes, in no order; of an operator that
// grows its cache itself, what is not it only reads. None if one of them has a mask that is not of
// position: then `why` names the instruction that is in the way and says how.
std::vector<CachedAttention> recognise_attention(Instruction& owner, const AffineAnalysis& flow,
                                                 const TokenExtents& extents, NotAttention& not_it);

// Attention of every row to all keys that a parameter holds.
std::vector<CachedAttention> recognise_cross_attention(Value* keys, const AffineAnalysis& flow,
                                                       const TokenExtents& extents,
                                                       NotAttention& not_it);

}  // namespace lathe
