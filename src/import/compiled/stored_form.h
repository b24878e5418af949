// SPDX-License-Identifier: MIT
// Inverses of packings: they restore weights that a compiled file holds in packed form alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace lathe {

// Type and shape of a packing's source; `present` is false for one that was not passed.
struct PackedSource {
  bool present = false;
  ElementType type = ElementType::f32;
  Dims dims;
};

// The key of packed weights: their packing and the content hashes of their sources, 0 for one that
// was not passed.
std::string packing_key(const std::string& packing_id, std::span<const uint64_t> sources);

// Writes the elements of source `index` to `out`. False if the packing has no inverse in this
// build, or `packed` has another size than it.
using Unpack = bool (*)(const std::string& packing_id, std::span<const PackedSource> sources,
                        size_t index, std::span<const std::byte> packed, void* out);

// Registers an inverse while the program starts. Packing ids of other targets are refused by it.
class UnpackRegistration {
 public:
  explicit UnpackRegistration(Unpack unpack);
};
bool unpack(const std::string& packing_id, std::span<const PackedSource> sources, size_t index,
            std::span<const std::byte> packed, void* out);

}  // namespace lathe
