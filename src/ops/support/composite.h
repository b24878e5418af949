// SPDX-License-Identifier: MIT
// What the expansions of composites have in common.
#pragma once

#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace lathe {

// Composites compute in f32 where their operands are narrower floats, and round once at the end.
ElementType composite_type(ElementType type);
Value* widen(Builder& b, Value* x);

// States the next result: `value` rounded to the type that inference promised; null stays null (a
// result that nobody uses).
void conclude(Expansion& e, Value* value);

// Float operands of these names.
std::vector<OperandSpec> float_operands(std::initializer_list<std::string_view> names);

// Elements [begin, end) along an axis.
Value* slice_along(Builder& b, Value* x, int64_t axis, const Dim& begin, const Dim& end);
// A vector [n] as [n, 1, …] with `trailing` ones.
Value* as_column(Builder& b, Value* vector, int trailing);
// A reduction over axes, which stay with extent 1.
Value* reduce(Builder& b, std::string_view op, Value* x, const std::vector<int64_t>& axes);
// Axes first … last - 1.
std::vector<int64_t> axis_range(int first, int last);

// (x - mean) · inverse over the axes, inverse = 1 / sqrt(variance + epsilon).
struct Normalized {
  Value* value;
  Value* mean;
  Value* inverse;
};
Normalized normalize(Builder& b, Value* x, const std::vector<int64_t>& axes, double epsilon);
// The same about zero: x · inverse, inverse = 1 / sqrt(mean of squares + epsilon); no mean.
Normalized normalize_rms(Builder& b, Value* x, const std::vector<int64_t>& axes, double epsilon);

// Mean and variance of each channel (axis 1), [c].
struct Moments {
  Value* mean;
  Value* variance;
};
Moments channel_moments(Builder& b, Value* x);
// x · share + y · (1 - share).
Value* blend(Builder& b, Value* x, Value* y, double share);

// x, in steps of the result already, rounded to the type of a zero point of one element.
Value* quantise(Builder& b, Value* x, Value* zero_point);

// Results of a normalisation of a sum: y, mean and factor over the last axis, and the sum.
void infer_skip_normalization(Infer& c);
// Checks that operands are vectors of the extent of x's channels (axis 1).
void require_channels(Infer& c, std::initializer_list<int> operands);
// The extents of `i` with those from `axis` on replaced by 1.
std::vector<Dim> reduced_from(const Infer& c, int i, int axis);

}  // namespace lathe
