// SPDX-License-Identifier: MIT
// 16-bit floating-point elements in memory. The pointer's type selects the load or store.
#pragma once

#include <cstdint>

namespace lathe::cpu {

struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

}  // namespace lathe::cpu
