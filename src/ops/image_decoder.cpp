// SPDX-License-Identifier: MIT
#include "ops/evaluation.h"
#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/image.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

int channels_of(std::string_view pixel_format) { return pixel_format == "Grayscale" ? 1 : 3; }

void infer_image_decoder(Infer& c) {
  const std::string& format = require_choice(c, "pixel_format", {"RGB", "BGR", "Grayscale"});
  require_rank(c, 0, 1);
  const Range sizes{0, kMaxPixels};
  c.result(ElementType::u8,
           {c.found("height", sizes), c.found("width", sizes), channels_of(format)});
}

// What cannot be decoded is an image without pixels, as the standard has it.
void eval_image_decoder(Evaluation& c) {
  const DenseOperand stream(c.in(0));
  const std::string& format = c.text("pixel_format");
  const int channels = channels_of(format);
  const std::string_view bytes(stream.as<char>(), static_cast<size_t>(stream.count()));
  Image image = decode_image(bytes, "encoded_stream").value_or(Image{0, 0, channels, {}});
  image = with_channels(std::move(image), channels);
  const Dims dims = {image.height, image.width, channels};
  const Tensor pixels(ElementType::u8, dims);
  const bool is_reversed = format == "BGR";
  for (size_t i = 0; i < image.samples.size(); ++i) {
    pixels.as<uint8_t>()[i] = image.samples[is_reversed ? i - i % 3 + 2 - i % 3 : i];
  }
  store_tensor(pixels, c.out(0, dims));
}

}  // namespace

static const Register image_decoder{{
    .name = "image_decoder",
    .doc = "The pixels [height, width, channels] of an image file: PNG, JPEG, BMP, TIFF or PNM.",
    .operands = {{"encoded_stream", types(ElementType::u8)}},
    .attributes = {{"pixel_format", "RGB"}},
    .infer = infer_image_decoder,
    .eval = eval_image_decoder,
}};

}  // namespace lathe
