// SPDX-License-Identifier: MIT
// Shared by the scatter ops: combines updates with existing elements.
#pragma once

#include "ir/infer.h"
#include "ops/support/convert_operands.h"
#include "tensor/tensor.h"

namespace lathe {

enum class ScatterReduction : uint8_t { none, add, mul, max, min };
// By ONNX name; InvalidArgument if unknown.
ScatterReduction scatter_reduction(const std::string& name);

// Checks the reduction's name against the element type; the result has the type of x.
void infer_scatter(Infer& c);

// The element type to compute in: an arithmetic type if there is a reduction.
ElementType scatter_type(ElementType type, ScatterReduction reduction);
// to = reduction(to, from) elementwise; views of equal shapes in scatter_type().
void scatter_into(ScatterReduction reduction, const TensorView& from, const TensorView& to);

}  // namespace lathe
