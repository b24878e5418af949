// SPDX-License-Identifier: MIT
// Taps of a resize along one axis: input elements and weights per output position.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
};

struct ResizeTaps {
  int64_t width = 1;               // taps per output position
  std::vector<int64_t> index;      // output × width, within the input
  std::vector<double> weight;      // output × width
  std::vector<bool> extrapolated;  // per output position: outside the input
};

ResizeTaps resize_taps(const ResizeOptions& options, const ResizeAxis& axis);

}  // namespace lathe
