// SPDX-License-Identifier: MIT
// Blocks of quantised elements of GGUF: element = scale · level + minimum, with a scale and a
// minimum per group, and a level of each code: code - zero, or an entry of a table.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/thread_pool.h"
#include "tensor/element_type.h"

namespace lathe {

inline constexpr int64_t kMaxBlock = 256;
inline constexpr int64_t kMinGroup = 16;

struct BlockParts {
  uint8_t codes[kMaxBlock];  // in the order of the elements
  float scales[kMaxBlock / kMinGroup];
  float minimums[kMaxBlock / kMinGroup];
  // Formats with byte scales: a scale is the f16 factor times its byte, and so is a minimum. Others
  // but MXFP4: the f16 scale and minimum.
  int8_t byte_scales[kMaxBlock / kMinGroup];
  int8_t byte_minimums[kMaxBlock / kMinGroup];
  uint16_t factor;
  uint16_t minimum_factor;
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
  bool has_byte_scales;
  void (*split)(const uint8_t* block, BlockParts& parts);
};

// Null for types that are not blocks.
const BlockFormat* find_block_format(std::string_view name);

// How matmul_n_bits reads a block type: (code - zero) · scale with codes of 2, 4 or 8 bits. Levels
// are exact, with the zero in the middle of the codes. A minimum becomes the zero point -minimum /
// scale, as f32, which is off by at most a unit in the minimum's last place.
struct SplitForm {
  explicit SplitForm(const BlockFormat& format);
  int bits;                // of a code
  ElementType scale_type;  // f16 where a block has one f16 scale, else f32
};
// Splits `count` blocks: codes with low bits first, and f32 scales and zero points of each group.
// `zeros` may be null for formats without minimums.
void split_blocks(const BlockFormat& format, const uint8_t* blocks, int64_t count, uint8_t* codes,
                  float* scales, float* zeros);

// Dequantises `count` elements, a multiple of a block's; the product and the sum are rounded once
// each.
void dequantise(const BlockFormat& format, const uint8_t* blocks, int64_t count, float* to,
                ThreadPool* pool = nullptr);

}  // namespace lathe
