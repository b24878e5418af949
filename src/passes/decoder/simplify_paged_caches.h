// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "passes/decoder/pack_sequences.h"

namespace lathe {

// A program whose caches lie in blocks, as one with caches [batch, heads, rows, size]: tokens
// [rows] become [batch, rows], attention over blocks becomes grouped attention. Null where
// something else reads the caches, or cannot take another axis.
std::unique_ptr<Program> simplify_paged_caches(const Program& program,
                                               const DecoderInterface& interface);

}  // namespace lathe
