// SPDX-License-Identifier: MIT
// Grouped attention of several layers over one cache: to the same new rows behind the same past, or
// without new rows to what another has made of past and new ones.
#pragma once

#include <string>
#include <vector>

#include "passes/decoder/pack_sequences.h"

namespace lathe {

// Reads a state that another instruction appends to.
struct SharedKvCache {
  std::string state;
  int64_t window = 0;  // rows that it needs; 0: all
};

// The first in the program's order makes every present, the others become sequence attention to
// what it has appended. Leaves alone what is not causal, has a bias, gives its scores, or turns its
// keys otherwise.
std::vector<SharedKvCache> share_kv_caches(Program& program, const DecoderInterface& names);

}  // namespace lathe
