// SPDX-License-Identifier: MIT
// Quantised weights in about the bits of a GGUF file: codes with scales as in the file, and
// minimums.
#pragma once

#include <cstdint>

namespace lathe {

struct CompactForm {
  int bits = 0;              // of a code
  int block = 0;             // elements that share a scale
  bool byte_scales = false;  // signed bytes times an f16 factor per 256 elements, or f16
  bool minimums = false;     // like the scales
  bool levels = false;       // codes index 16 levels
  bool operator==(const CompactForm&) const = default;
};

// Consecutive columns.
struct CompactColumns {
  uint8_t* codes = nullptr;             // [count, blocks · block], a byte each
  void* scales = nullptr;               // [count, blocks], f16 or signed bytes
  void* minimums = nullptr;             // [count, blocks], f16 or signed bytes
  uint16_t* factors = nullptr;          // f16 [count, blocks · block / 256] of byte scales
  uint16_t* minimum_factors = nullptr;  // and of byte minimums
};

}  // namespace lathe
