// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "passes/analysis/affine_value.h"
#include "tensor/tensor.h"

namespace lathe {

// A single number, a count in equal steps, or a triangle as old models keep their masks.
std::optional<AffineValue> affine_literal(const Tensor& tensor);

}  // namespace lathe
