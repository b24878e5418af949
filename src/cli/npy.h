// SPDX-License-Identifier: MIT
// Arrays in numpy's .npy format.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace lathe::cli {

// Whether these bytes begin like a .npy file.
bool looks_like_npy(std::string_view bytes);

// The array; `wanted` decides where numpy has no element type of its own: bfloat16 and 8-bit floats
// are read from raw bytes, types below 8 bits from one byte per element. Shares the bytes, which
// `owner` keeps alive, where it can. InvalidArgument naming `origin` if they are no such array.
Tensor read_npy(std::string_view bytes, std::string_view origin, std::optional<ElementType> wanted,
                const std::shared_ptr<const void>& owner);

// Calls `write` with the pieces of the file.
void write_npy(const Tensor& tensor, const std::function<void(std::string_view)>& write);

}  // namespace lathe::cli
