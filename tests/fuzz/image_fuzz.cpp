// SPDX-License-Identifier: MIT
// Any bytes as an image of ImageDecoder: decoded, empty or refused, within bounded memory.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "ops/support/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto image = lathe::decode_image(bytes, "fuzz");
    if (!image) return 0;
    const auto pixels = static_cast<size_t>(image->height) * static_cast<size_t>(image->width);
    if (image->samples.size() != pixels * static_cast<size_t>(image->channels)) __builtin_trap();
    lathe::with_channels(*image, 1);
  } catch (const lathe::Error& error) {
    if (error.kind() == lathe::ErrorKind::internal) __builtin_trap();
  }
  return 0;
}
