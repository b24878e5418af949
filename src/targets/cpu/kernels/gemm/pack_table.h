// SPDX-License-Identifier: MIT
// Functions exported by pack_avx2.cpp.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// Packs `count` rows of a panel of 16 or 32 columns into groups of 2 or 4 contiguous elements.
// `row_stride` is in elements; missing rows are zero.
struct PackTable {
  void (*pairs)(const uint16_t* rows, int64_t row_stride, int64_t count, int64_t columns,
                uint32_t* out);
  // XORs each byte with `flip` and accumulates the signed results per column.
  void (*quads)(const uint8_t* rows, int64_t row_stride, int64_t count, int64_t columns, int flip,
                uint32_t* out, int32_t* sums);
};
extern const PackTable kPackAvx2;

}  // namespace lathe::cpu
