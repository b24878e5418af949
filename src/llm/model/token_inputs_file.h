// SPDX-License-Identifier: MIT
// Token inputs in saved sequences. Numbers have 64 bits, little-endian.
#pragma once

#include <span>
#include <vector>

#include "llm/model/byte_stream.h"
#include "llm/model/token_inputs.h"

namespace lathe::llm {

// Count, then of each: begin, hash, element type, shape and bytes.
void write_embedded(std::span<const EmbeddedTokens> embedded, ByteWriter& writer);
std::vector<EmbeddedTokens> read_embedded(ByteReader& reader, int64_t length);
// Count, then of each run: begin, tokens, axes and values, each at most `most`.
void write_positions(const Positions& positions, ByteWriter& writer);
Positions read_positions(ByteReader& reader, int64_t length, int64_t most);

}  // namespace lathe::llm
