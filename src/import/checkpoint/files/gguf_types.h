// SPDX-License-Identifier: MIT
// The element types of GGUF tensors: plain ones, and blocks of quantised elements.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace lathe::checkpoint {

struct GgufType {
  uint32_t id;            // in the file
  std::string_view name;  // as GGUF spells it: "Q4_K"
  int64_t elements;       // of a block; 1: not quantised
  int64_t bytes;          // of a block
  bool supported;         // false: refused by name
};

std::span<const GgufType> gguf_types();
// Null for an unknown id.
const GgufType* find_gguf_type(uint32_t id);

}  // namespace lathe::checkpoint
