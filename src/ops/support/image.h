// SPDX-License-Identifier: MIT
// Images in files of the formats of ONNX ImageDecoder.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace lathe {

constexpr int64_t kMaxPixels = 50'000'000;

// 8-bit samples, [height, width, channels]: grey, RGB or RGBA.
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<uint8_t> samples;
};

// Decodes PNG, JPEG, BMP, TIFF and PNM; nullopt for anything else and for damaged data.
// InvalidArgument for more than kMaxPixels or PNG data that inflates to more than its pixels,
// Unsupported for WebP, JPEG 2000 and rare kinds of TIFF. `origin` is named in errors.
std::optional<Image> decode_image(std::string_view bytes, std::string_view origin);

// The image with 1, 3 or 4 channels; grey is ITU-R 601 luma.
Image with_channels(Image image, int channels);

// Decoders of one format each.
std::optional<Image> decode_jpeg(std::string_view bytes, std::string_view origin);
std::optional<Image> decode_tiff(std::string_view bytes, std::string_view origin);
void check_image_size(int64_t width, int64_t height, std::string_view origin);

}  // namespace lathe
