// SPDX-License-Identifier: MIT
// Blocks of quantised elements of GGUF: element = scale · level + minimum, with a scale and a
// minimum per group, and a level of each code: code - zero, or an entry of a table.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/thread_pool.h"

namespace lathe::checkpoint {

inline constexpr int64_t kMaxBlock = 256;
inline constexpr int64_t kMinGroup = 16;

struct BlockParts {
  uint8_t codes[kMaxBlock];  // in the order of the elements
  float scales[kMaxBlock / kMinGroup];
  float minimums[kMaxBlock / kMinGroup];
};

struct BlockFormat {
  std::string_view name;  // as GGUF spells it
  int64_t elements;       // of a block
  int64_t bytes;          // of a block
  int64_t group;          // elements that share a scale
  int bits;               // of a code
  int zero;
  const int8_t* levels;  // 16 of them, or null
  bool has_minimum;
  void (*split)(const uint8_t* block, BlockParts& parts);
};

// Null for types that are not blocks.
const BlockFormat* find_block_format(std::string_view name);

// Dequantises `count` elements, a multiple of a block's; the product and the sum are rounded once
// each.
void dequantise(const BlockFormat& format, const uint8_t* blocks, int64_t count, float* to,
                ThreadPool* pool = nullptr);

}  // namespace lathe::checkpoint
