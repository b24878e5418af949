// SPDX-License-Identifier: MIT
// A sequence as bytes, to be taken up again later, elsewhere, or by another process.
#pragma once

#include <span>
#include <vector>

#include "llm/model/sequence.h"

namespace lathe::llm {

// Everything the sequence keeps, its checkpoints included.
std::vector<std::byte> save_sequence(const Sequence& sequence);

// InvalidArgument for bytes that are no saved sequence, are damaged, come from a model with other
// states, or hold more than `most_rows` rows. Pages may be cut differently than they were.
Sequence restore_sequence(std::shared_ptr<const CacheLayout> layout,
                          std::span<const std::byte> bytes, int64_t most_rows);

}  // namespace lathe::llm
