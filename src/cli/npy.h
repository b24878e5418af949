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

// Whether the bytes begin with the magic of .npy.
bool looks_like_npy(std::string_view bytes);

// The array. `expected` selects an element type that numpy lacks: bf16 and 8-bit floats are stored
// as raw bytes, types below 8 bits as one byte per element. Refers to the bytes, which `owner`
// keeps alive, if they are aligned. InvalidArgument naming `origin` for invalid bytes.
Tensor read_npy(std::string_view bytes, std::string_view origin,
                std::optional<ElementType> expected, const std::shared_ptr<const void>& owner);

// InvalidArgument naming `origin` if the header is invalid or needs other than `size` bytes in all.
// `begin`: the first min(size, kMaxNpyHeader) bytes of the file.
constexpr size_t kMaxNpyHeader = (size_t{1} << 20) + 12;
void check_npy_size(std::string_view begin, std::string_view origin, size_t size);

// Passes the file to `write` in pieces.
void write_npy(const Tensor& tensor, const std::function<void(std::string_view)>& write);

}  // namespace lathe::cli
