// SPDX-License-Identifier: MIT
// Helpers for expansions of composites.
#pragma once

#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace lathe {

// Composites compute in f32 if their operands are narrower floats, and round once at the end.
ElementType composite_type(ElementType type);
Value* widen(Builder& b, Value* x);

// Sets the next result to `value` cast to the inferred type; null (an unused result) stays null.
void conclude(Expansion& e, Value* value);

// Float operands with these names.
std::vector<OperandSpec> float_operands(std::initializer_list<std::string_view> names);

// Elements [begin, end) along an axis.
Value* slice_along(Builder& b, Value* x, int64_t axis, const Dim& begin, const Dim& end);
// Reshapes a vector [n] to [n, 1, …] with `trailing` ones.
Value* as_column(Builder& b, Value* vector, int trailing);
// Reduces over axes and keeps them with size 1.
Value* reduce(Builder& b, const Op& op, Value* x, const std::vector<int64_t>& axes);
// Axes first … last - 1.
std::vector<int64_t> axis_range(int first, int last);

// (x - mean) · inverse over the axes, inverse = 1 / sqrt(variance + epsilon).
struct Normalized {
  Value* value;
  Value* mean;
  Value* inverse;
};
Normalized normalize(Builder& b, Value* x, const std::vector<int64_t>& axes, double epsilon);
// RMS normalisation: x · inverse, inverse = 1 / sqrt(mean of squares + epsilon); no mean.
Normalized normalize_rms(Builder& b, Value* x, const std::vector<int64_t>& axes, double epsilon);

// Mean and variance of each channel (axis 1), [c].
struct Moments {
  Value* mean;
  Value* variance;
};
Moments channel_moments(Builder& b, Value* x);
// x · share + y · (1 - share).
Value* blend(Builder& b, Value* x, Value* y, double share);

// Casts x, already in units of the result's scale, to the type of a zero point of one element.
Value* quantise(Builder& b, Value* x, Value* zero_point);

// Checks that operands, if present, broadcast to operand 0, as it is.
void require_broadcast(Infer& c, std::initializer_list<int> operands);
// Results of a normalisation of a sum: y, mean and factor over the last axis, and the sum.
void infer_skip_normalization(Infer& c);
// Checks that operands are vectors with one element per channel of x (axis 1).
void require_channels(Infer& c, std::initializer_list<int> operands);
// The dims of operand `i`, with 1 from `axis` on.
std::vector<Dim> reduced_from(const Infer& c, int i, int axis);

}  // namespace lathe
