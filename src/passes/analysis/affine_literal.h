// SPDX-License-Identifier: MIT
#pragma once

#include <optional>

#include "passes/analysis/affine_value.h"
#include "tensor/tensor.h"

namespace lathe {

// Recognises a scalar, equal integers, an arithmetic progression or a triangular mask.
std::optional<AffineValue> affine_literal(const Tensor& tensor);

}  // namespace lathe
