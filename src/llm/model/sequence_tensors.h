// SPDX-License-Identifier: MIT
// Converts a sequence's states to and from the model file's inputs, for other runtimes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "llm/model/sequence.h"

namespace lathe::llm {

struct StateTensor {
  std::string past;     // input name in the file
  std::string present;  // output name in the file
  Tensor tensor;  // KV caches [1, heads, tokens, size] or [1, tokens, heads · size]; others as in
                  // the file, batch 1
};

// One tensor per state. Slots evicted by a window are zero, since the file masks them. A cache of
// fixed shape keeps it, zero where unwritten; InvalidArgument if shorter than the sequence. A
// sliding-window cache of unknown shape has window + `slack` slots.
std::vector<StateTensor> export_states(const Sequence& sequence, int64_t slack = 16);

// A sequence of `length` tokens from tensors named by `past` or `present`, in any order; ignores
// other names. A cache with a window may hold only its last tokens, one of fixed shape only those
// written. InvalidArgument for a state that is missing, repeated, or of another type or shape.
// `tokens`: their ids, which a program with a LongRoPE switch may run again.
Sequence import_states(std::shared_ptr<const CacheLayout> layout, int64_t length,
                       std::span<const StateTensor> tensors, std::span<const int64_t> tokens = {});

}  // namespace lathe::llm
