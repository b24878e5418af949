// SPDX-License-Identifier: MIT
// Pictures as inputs of models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace lathe::cli {

// How pixels become numbers: (pixel * scale - mean) / std, per channel.
struct ImageOptions {
  std::vector<double> mean;   // one for all channels or one each; empty: 0
  std::vector<double> std;    // the same; empty: 1
  std::vector<double> scale;  // the same; empty: 1/255 for floats, 1 for integers
  std::string layout = "auto";
};

bool looks_like_image(std::string_view bytes);  // PNG or JPEG

// The picture as `type` with the extents `wanted`, where -1 takes the picture's own: height and
// width (one channel), channels first or last, or that with a leading batch of one. Shrinks by
// area, grows bilinearly. InvalidArgument if the bytes are no picture or the extents no picture's.
Tensor read_image(std::string_view bytes, std::string_view origin, ElementType type,
                  const Dims& wanted, const ImageOptions& options);

}  // namespace lathe::cli
