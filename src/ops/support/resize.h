// SPDX-License-Identifier: MIT
// Sizes of a resize, and its taps along one axis: input elements and weights per output position.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/attribute.h"
#include "ops/op_origin.h"
#include "ops/operand_views.h"

namespace lathe {

struct ResizeOptions {
  std::string mode;          // nearest, linear, cubic
  std::string coordinates;   // the coordinate transformation
  std::string nearest_mode;  // round_prefer_floor, round_prefer_ceil, floor, ceil
  bool antialias = false;
  bool exclude_outside = false;
  double cubic_a = -0.75;
};

struct ResizeAxis {
  int64_t input = 0;  // sizes
  int64_t output = 0;
  float scale = 1;  // output per input
  float roi_start = 0;
  float roi_end = 1;
  bool changes = false;  // false: output position i is the element i
  bool operator==(const ResizeAxis&) const = default;
};

struct ResizeAttributes {
  ResizeAttributes() = default;
  explicit ResizeAttributes(const InstructionReader& c);
  ResizeOptions options;
  Integers axes;       // empty: all
  std::string policy;  // which scale counts if sizes are given: stretch, not_larger, not_smaller
};

// All axes of operand 0, by the operands' values; InvalidArgument if these have no meaning.
std::vector<ResizeAxis> resize_axes(const ResizeAttributes& attributes, const OpOrigin& origin,
                                    const OperandViews& c);

struct ResizeTaps {
  int64_t width = 1;               // taps per output position
  std::vector<int64_t> index;      // output × width, within the input
  std::vector<double> weight;      // output × width
  std::vector<bool> extrapolated;  // per output position: outside the input
};

// An axis that does not change has its own elements.
ResizeTaps resize_taps(const ResizeOptions& options, const ResizeAxis& axis);

}  // namespace lathe
