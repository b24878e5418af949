// SPDX-License-Identifier: MIT
// Reads the table of tensors of a safetensors file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::checkpoint {

struct SafetensorsTensor {
  std::string name;
  std::string type;           // as the file spells it: "BF16"
  std::vector<int64_t> dims;  // outermost first
  uint64_t offset = 0;        // from the file's beginning
  uint64_t bytes = 0;
};

// In the order of their places. InvalidModel unless every tensor has a known type, the size of its
// shape and a place of its own in the file, without gaps.
std::vector<SafetensorsTensor> read_safetensors(std::string_view bytes);

// Bits of an element of this type; 0: unknown.
int64_t safetensors_bits(std::string_view type);

}  // namespace lathe::checkpoint
