// SPDX-License-Identifier: MIT
// Transposes matrices of 1-, 2- and 4-byte elements, for activations that change their layout.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// to[c * to_pitch + r] = from[r * from_pitch + c]; pitches in elements. The ranges must not
// overlap.
void transpose_matrix(int element_bytes, const void* from, int64_t from_pitch, void* to,
                      int64_t to_pitch, int64_t rows, int64_t columns);

}  // namespace lathe::cpu
