// SPDX-License-Identifier: MIT
// Shares one KV cache among layers of group_query_attention. They append the same new tokens to the
// same past, or only read another layer's cache.
#pragma once

#include <string>
#include <vector>

#include "passes/decoder/pack_sequences.h"

namespace lathe {

// Reads a state that another instruction appends to.
struct SharedKvCache {
  std::string state;
  int64_t window = 0;  // sliding window in tokens; 0: unlimited
};

// The first instruction in program order appends; the others become cached_attention over its
// cache, which it will update. Skips attention that is not causal, has a bias, returns its scores,
// or applies another RoPE to its keys. `tables` receives the names of added inputs.
std::vector<SharedKvCache> share_kv_caches(Program& program, const DecoderInterface& names,
                                           StepTableNames& tables);

}  // namespace lathe
