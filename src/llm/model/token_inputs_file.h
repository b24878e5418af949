// SPDX-License-Identifier: MIT
// What rows come with, as saved sequences have it. Numbers are 64 bits, low bytes first.
#pragma once

#include <span>
#include <vector>

#include "llm/model/byte_stream.h"
#include "llm/model/token_inputs.h"

namespace lathe::llm {

// Rows of embeddings: how many times, then of each where it begins, hash, element type, extents and
// bytes.
void write_embedded(std::span<const EmbeddedTokens> embedded, ByteWriter& writer);
std::vector<EmbeddedTokens> read_embedded(ByteReader& reader, int64_t length);
// How many runs, then of each where it begins, rows, axes and values, each at most `most`.
void write_positions(const Positions& positions, ByteWriter& writer);
Positions read_positions(ByteReader& reader, int64_t length, int64_t most);

}  // namespace lathe::llm
