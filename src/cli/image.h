// SPDX-License-Identifier: MIT
// Images as inputs of models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace lathe::cli {

// Normalisation (pixel * scale - mean) / std, per channel, and the axis order.
struct ImageOptions {
  std::vector<double> mean;   // one for all channels or one each; empty: 0
  std::vector<double> std;    // one or one each; empty: 1
  std::vector<double> scale;  // one or one each; empty: 1/255 for floats, 1 for integers
  std::string layout = "auto";
};

bool looks_like_image(std::string_view bytes);  // PNG or JPEG

// The image as a tensor of `type` and shape `shape`: [height, width] for one channel, channels
// first or last, optionally with a leading batch of one. A size of -1 is that of the image.
// Downscales by area, upscales bilinearly. InvalidArgument for invalid bytes or an unsuitable
// shape.
Tensor read_image(std::string_view bytes, std::string_view origin, ElementType type,
                  const Dims& shape, const ImageOptions& options);

}  // namespace lathe::cli
