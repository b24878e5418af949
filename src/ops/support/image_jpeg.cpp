// SPDX-License-Identifier: MIT
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>

#include <jerror.h>

#include "ops/support/image.h"

namespace lathe {
namespace {

// The library's state and ours. It reports errors by jumping out of its functions, over frames that
// must hold nothing to destroy.
struct JpegDecoder {
  jpeg_decompress_struct info;  // first: the library's pointer to it is cast back
  jpeg_error_mgr errors;
  jpeg_progress_mgr progress;
  std::jmp_buf failed;
};

[[noreturn]] void leave(j_common_ptr info) {
  std::longjmp(reinterpret_cast<JpegDecoder*>(info)->failed, 1);
}

// A file that ends too early is damaged; other warnings are about oddities.
void warn(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) leave(info);
}

// Bounds the time of progressive files, whose scans each visit the whole image.
void limit_scans(j_common_ptr info) {
  constexpr int kMostScans = 500;
  if (reinterpret_cast<JpegDecoder*>(info)->info.input_scan_number > kMostScans) leave(info);
}

bool read_header(JpegDecoder& decoder, std::string_view bytes) {
  if (setjmp(decoder.failed) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.info.progress = &decoder.progress;
  jpeg_mem_src(&decoder.info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  return jpeg_read_header(&decoder.info, TRUE) == JPEG_HEADER_OK;
}

bool start(JpegDecoder& decoder) {
  if (setjmp(decoder.failed) != 0) return false;
  return jpeg_start_decompress(&decoder.info) != 0;
}

bool read_rows(JpegDecoder& decoder, uint8_t* samples, size_t row) {
  if (setjmp(decoder.failed) != 0) return false;
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW at = samples + decoder.info.output_scanline * row;
    jpeg_read_scanlines(&decoder.info, &at, 1);
  }
  return jpeg_finish_decompress(&decoder.info) != 0;
}

// Destroys the library's state at the end of a scope.
struct DestroyJpeg {
  JpegDecoder& decoder;
  ~DestroyJpeg() { jpeg_destroy_decompress(&decoder.info); }
};

// Adobe's inverted CMYK as RGB.
Image rgb_of_cmyk(const Image& cmyk) {
  Image rgb{cmyk.height, cmyk.width, 3, {}};
  rgb.samples.reserve(cmyk.samples.size() / 4 * 3);
  for (size_t i = 0; i < cmyk.samples.size(); i += 4) {
    for (size_t c = 0; c < 3; ++c) {
      rgb.samples.push_back(
          static_cast<uint8_t>((cmyk.samples[i + c] * cmyk.samples[i + 3] + 127) / 255));
    }
  }
  return rgb;
}

}  // namespace

std::optional<Image> decode_jpeg(std::string_view bytes, std::string_view origin) {
  JpegDecoder decoder{};
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = leave;
  decoder.errors.emit_message = warn;
  decoder.progress.progress_monitor = limit_scans;
  const DestroyJpeg destroy{decoder};
  if (!read_header(decoder, bytes)) return {};
  check_image_size(decoder.info.image_width, decoder.info.image_height, origin);
  const bool is_grey = decoder.info.jpeg_color_space == JCS_GRAYSCALE;
  const bool is_cmyk =
      decoder.info.jpeg_color_space == JCS_CMYK || decoder.info.jpeg_color_space == JCS_YCCK;
  decoder.info.out_color_space = is_grey ? JCS_GRAYSCALE : is_cmyk ? JCS_CMYK : JCS_RGB;
  if (!start(decoder)) return {};
  Image image{static_cast<int>(decoder.info.output_height),
              static_cast<int>(decoder.info.output_width),
              decoder.info.output_components,
              {}};
  const auto row = static_cast<size_t>(image.width) * static_cast<size_t>(image.channels);
  image.samples.resize(row * static_cast<size_t>(image.height));
  if (!read_rows(decoder, image.samples.data(), row)) return {};
  return is_cmyk ? rgb_of_cmyk(image) : image;
}

}  // namespace lathe
