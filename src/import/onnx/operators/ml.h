// SPDX-License-Identifier: MIT
// Shared by imports of domain ai.onnx.ml.
#pragma once

#include "import/onnx/operators/operators.h"

namespace lathe::onnx {

// Input 0 as a matrix of this type; a vector is one row.
Value* ml_matrix(NodeImport& c, ElementType type = ElementType::f32);
// The element type in which the operator computes input 0: f64 for f64, else f32.
ElementType ml_float_type(const NodeImport& c);
// A literal of these numbers, converted. InvalidModel if their number contradicts the shape.
Value* ml_numbers(NodeImport& c, std::string_view name, const Numbers& values, Dims dims,
                  ElementType type = ElementType::f32);
Value* ml_texts(NodeImport& c, const Texts& values);
// The size of input 0's last axis, if it is constant.
std::optional<int64_t> ml_features(const NodeImport& c);

// Class labels: integers or strings, at least one.
struct Labels {
  Value* values = nullptr;
  int64_t count = 0;
};
Labels ml_labels(NodeImport& c, std::string_view integers, std::string_view texts);
// The label at each index.
Value* ml_labels_at(NodeImport& c, const Labels& labels, Value* indices);
// The label of each row's greatest score, the first of equal ones.
Value* ml_top_label(NodeImport& c, const Labels& labels, Value* scores);
// The second label where the score exceeds the bound, else the first.
Value* ml_label_above(NodeImport& c, const Labels& labels, Value* score, double bound);

// post_transform: NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT.
std::string_view ml_transform(NodeImport& c);
// Applies it to scores [n, columns]. As in ONNX Runtime, PROBIT alone changes a single column.
Value* ml_transformed(NodeImport& c, Value* scores, std::string_view transform, int64_t columns);
// Both classes' scores from the second's, [n, 1]: 1 - s or -s for the first class.
Value* ml_two_classes(NodeImport& c, Value* score, std::string_view transform, bool complement);

}  // namespace lathe::onnx
