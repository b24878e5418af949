// SPDX-License-Identifier: MIT
// Helpers for inference on symbolic values of small integer tensors.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dim.h"
#include "tensor/tensor.h"

namespace lathe {

std::vector<Dim> constant_dims(std::span<const int64_t> values);
// All elements of an integer or bool tensor, row-major.
std::vector<int64_t> integer_values(const Tensor& tensor);
// The dims as integers; nullopt if one is symbolic.
std::optional<std::vector<int64_t>> constant_values(std::span<const Dim> dims);

}  // namespace lathe
