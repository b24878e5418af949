// SPDX-License-Identifier: MIT
// Recognises attention over a KV cache: one operator, or matmul, softmax and matmul over
// concatenated pasts or over caches of fixed capacity.
#pragma once

#include <string>
#include <vector>

#include "passes/analysis/attention_bias.h"

namespace lathe {

// How attention uses a KV cache: it appends its tokens, reads what another instruction appends, or
// reads keys and values that are parameters.
enum class CacheUse : uint8_t { appended, shared, cross };

// Causal attention of new tokens to a cache and themselves. Tensors are flat [batch, tokens, heads
// · size] or in heads [batch, heads, tokens, size]; in heads the result may omit a batch of one.
struct CachedAttention : AttentionBias {
  Value* query = nullptr;
  Value* key = nullptr;  // new tokens
  Value* value = nullptr;
  Value* past_key = nullptr;
  Value* past_value = nullptr;
  Value* present_key = nullptr;
  Value* present_value = nullptr;
  Value* result = nullptr;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  double scale = 0;  // 0: 1 / sqrt(head size)
  double softcap = 0;
  CacheUse use = CacheUse::appended;
};

// Why an attention is not recognised.
struct NotAttention {
  const Instruction* instruction = nullptr;
  std::string why;
};
// The instruction with its node and the reason, for messages.
std::string describe(const Instruction& instruction, std::string_view why);

// All attention over the cache that `owner` produces, unordered. If `owner` appends to the cache
// itself, the others only read it. Empty if one does not match: `not_it` then has the blocking
// instruction and the reason.
std::vector<CachedAttention> recognise_attention(Instruction& owner, const AffineAnalysis& flow,
                                                 const TokenExtents& extents, NotAttention& not_it);

// All attention over keys that are a parameter.
std::vector<CachedAttention> recognise_cross_attention(Value* keys, const AffineAnalysis& flow,
                                                       const TokenExtents& extents,
                                                       NotAttention& not_it);

}  // namespace lathe
