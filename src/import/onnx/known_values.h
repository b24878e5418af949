// SPDX-License-Identifier: MIT
// Evaluates small values that depend only on literals and shapes.
#pragma once

#include <optional>

#include "ir/program.h"
#include "tensor/tensor.h"

namespace lathe::onnx {

// The constant tensor of `value`, if a few instructions on few elements compute it.
std::optional<Tensor> known_tensor(const Value& value);

}  // namespace lathe::onnx
