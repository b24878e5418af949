// SPDX-License-Identifier: MIT
// Random tensors that are the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/tensor.h"

namespace lathe::cli {

// Floats in [-1, 1), integers 0 or 1 (which indexes anything), bools, short texts. Depends on the
// name, not on the other inputs.
Tensor random_tensor(ElementType type, const Dims& dims, uint64_t seed, std::string_view name);

// Every element `value`; InvalidArgument naming the input if the type cannot hold it.
Tensor filled_tensor(ElementType type, const Dims& dims, double value, std::string_view name);

}  // namespace lathe::cli
