// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace lathe {

// Literal::hash() of the elements as they are, also where a file states their hash.
uint64_t hash_of(const Tensor& tensor);

}  // namespace lathe
