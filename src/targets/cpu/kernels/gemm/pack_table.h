// SPDX-License-Identifier: MIT
// What the unit of pack.h exports.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// `count` rows of a panel of 16 or 32 columns, `row_stride` elements apart, in groups of 2 or 4
// side by side, zeros behind the last row.
struct PackTable {
  void (*pairs)(const uint16_t* rows, int64_t row_stride, int64_t count, int64_t columns,
                uint32_t* out);
  // The exclusive-or of each byte with `flip`, as signed ones, whose sums are added to `sums`.
  void (*quads)(const uint8_t* rows, int64_t row_stride, int64_t count, int64_t columns, int flip,
                uint32_t* out, int32_t* sums);
};
extern const PackTable kPackAvx2;

}  // namespace lathe::cpu
