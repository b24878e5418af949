// SPDX-License-Identifier: MIT
// Random and constant tensors, reproducible on every machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace lathe::cli {

// Floats in [-1, 1), integers 0 or 1 (valid as most indices), bools, short strings. Depends only on
// the seed, the name, the type and the shape.
Tensor random_tensor(ElementType type, const Dims& dims, uint64_t seed, std::string_view name);

// Every element is `value`. InvalidArgument naming the input if the type cannot hold it.
Tensor filled_tensor(ElementType type, const Dims& dims, double value, std::string_view name);

}  // namespace lathe::cli
