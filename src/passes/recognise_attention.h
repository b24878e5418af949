// SPDX-License-Identifier: MIT
// Finds attention over a cache however an exporter wrote it: as one operator, or as product,
// softmax and product of concatenated pasts.
#pragma once

#include <optional>
#include <string>

#include "passes/position_flow.h"

namespace lathe {

// Causal attention of new rows to a cache and themselves. Rows lie flat [batch, rows, heads · size]
// or in heads [batch, heads, rows, size].
struct CachedAttention {
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
  int64_t window = 0;  // 0: none
};

struct RowExtents {
  Dim past;  // rows before the new ones
  Dim rows;
};

// The attention that makes this present, if its mask is one of position; otherwise `why` names the
// instruction that is in the way (null: the present's own) and says how.
struct NotAttention {
  const Instruction* instruction = nullptr;
  std::string why;
};
std::optional<CachedAttention> recognise_attention(Instruction& owner, const PositionFlow& flow,
                                                   const RowExtents& extents, NotAttention& not_it);

}  // namespace lathe
