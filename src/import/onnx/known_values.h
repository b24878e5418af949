// SPDX-License-Identifier: MIT
// Small values that follow from literals and shapes alone.
#pragma once

#include <optional>

#include "ir/program.h"
#include "tensor/tensor.h"

namespace lathe::onnx {

// The tensor that `value` always has, if few instructions on few elements say so.
std::optional<Tensor> known_tensor(const Value& value);

}  // namespace lathe::onnx
