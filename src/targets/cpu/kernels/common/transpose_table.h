// SPDX-License-Identifier: MIT
// Functions that transpose_avx2.cpp exports.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct TransposeTable {
  using Run = void (*)(const void* from, int64_t from_pitch, void* to, int64_t to_pitch,
                       int64_t rows, int64_t columns);
  Run bytes1, bytes2, bytes4;
};
extern const TransposeTable kTransposeAvx2;

}  // namespace lathe::cpu
