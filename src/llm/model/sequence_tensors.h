// SPDX-License-Identifier: MIT
// A sequence's states as the model file's own inputs take them, for other runtimes and back.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "llm/model/sequence.h"

namespace lathe::llm {

struct StateTensor {
  std::string past;     // the file's input
  std::string present;  // the file's output of the same
  Tensor tensor;        // caches [1, heads, rows, size] or flat; others as they are, batch 1
};

// One tensor per state. Rows that a window has let go of are zero: the file masks them. A cache of
// fixed extents has those, zero where nothing was written; InvalidArgument if it is too short for
// the sequence. A cache that the file itself keeps to a window, of no extents that it says, gets
// that many rows and `slack`.
std::vector<StateTensor> export_states(const Sequence& sequence, int64_t slack = 16);

// A sequence of `length` rows from tensors named by `past` or `present`, any order, others than the
// states' passed over. A cache with a window may come with its last rows only, one of fixed extents
// with the rows alone. InvalidArgument for
// a state that is missing, twice there, or of another type or extents. `tokens` are those of the
// rows: a program that switches tables by length may have to run them again.
Sequence import_states(std::shared_ptr<const CacheLayout> layout, int64_t length,
                       std::span<const StateTensor> tensors, std::span<const int64_t> tokens = {});

}  // namespace lathe::llm
