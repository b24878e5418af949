// SPDX-License-Identifier: MIT
// Types of 16-bit floats in memory, so that loads and stores are chosen by the pointer's type.
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
