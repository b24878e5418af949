// SPDX-License-Identifier: MIT
// What the scatter ops share: combining an update with what is there.
#pragma once

#include "ir/infer.h"
#include "ops/support/convert_operands.h"
#include "tensor/tensor.h"

namespace lathe {

enum class ScatterReduction : uint8_t { none, add, mul, max, min };
// By ONNX's name; InvalidArgument for another.
ScatterReduction scatter_reduction(const std::string& name);

// Checks the name of the reduction against the element type and says that the result is x-like.
void infer_scatter(Infer& c);

// The type in which elements are combined: with a reduction, one that C++ computes with.
ElementType scatter_type(ElementType type, ScatterReduction reduction);
// to = reduction(to, from) for every element; views of equal extents and scatter_type.
void scatter_into(ScatterReduction reduction, const TensorView& from, const TensorView& to);

}  // namespace lathe
