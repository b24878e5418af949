// SPDX-License-Identifier: MIT
#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"
#include "ops/support/window.h"

namespace lathe {
namespace {

void infer_col2im(Infer& c) {
  require_rank(c, 0, 3);
  const std::optional<int64_t> spatial = element_count(c.dims(1)).constant();
  c.check(spatial.has_value(), "image_shape has an unknown number of entries: {}",
          element_count(c.dims(1)).to_string());
  c.require_equal(*spatial, element_count(c.dims(2)), "entries of image_shape and block_shape");
  const std::vector<Dim>* block = c.elements(2);
  std::vector<Dim> dims = {c.dim(0, 0)};
  if (block != nullptr && element_count(*block).constant().value_or(0) > 0) {
    dims.push_back(Dim::floor_div(c.dim(0, 1), element_count(*block)));
  } else {
    dims.push_back(c.found("channels", {0, c.dim(0, 1).range().max}));
  }
  std::ranges::move(dims_of_elements(c, 1, 0, *spatial, "image"), std::back_inserter(dims));
  c.result(c.element(0), std::move(dims));
}

// Image axes under the block: `output` is the number of block positions along the axis.
std::vector<WindowAxis> block_axes(const Evaluation& c, std::span<const int64_t> image,
                                   std::span<const int64_t> block) {
  const size_t n = image.size();
  const Integers strides = window_list(c, "strides", n, 1);
  const Integers dilations = window_list(c, "dilations", n, 1);
  const Integers pads = window_list(c, "pads", 2 * n, 0);
  std::vector<WindowAxis> axes;
  for (size_t i = 0; i < n; ++i) {
    c.check(image[i] > 0 && block[i] > 0 && strides[i] > 0 && dilations[i] > 0,
            "axis {} has an image size, block size, stride or dilation that is not positive", i);
    const int64_t reach = dilations[i] * (block[i] - 1) + 1;
    const int64_t room = image[i] + pads[i] + pads[i + n] - reach;
    c.check(room >= 0, "the block reaches over {} elements of axis {}, the padded image has {}",
            reach, i, image[i] + pads[i] + pads[i + n]);
    axes.push_back({.input = image[i],
                    .output = room / strides[i] + 1,
                    .kernel = block[i],
                    .stride = strides[i],
                    .dilation = dilations[i],
                    .pad_begin = pads[i],
                    .pad_end = pads[i + n]});
  }
  return axes;
}

// Offset in the image of block position `at` and block element `tap`, or -1 in the padding.
int64_t image_offset(std::span<const WindowAxis> axes, std::span<const int64_t> at, int64_t tap) {
  int64_t offset = 0;
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0; tap /= axes[i].kernel) {
    const int64_t position =
        at[i] * axes[i].stride - axes[i].pad_begin + tap % axes[i].kernel * axes[i].dilation;
    if (position < 0 || position >= axes[i].input) return -1;
    offset += position * stride;
    stride *= axes[i].input;
  }
  return offset;
}

void eval_col2im(Evaluation& c) {
  const std::vector<int64_t> image = c.values(1);
  const std::vector<int64_t> block = c.values(2);
  const std::vector<WindowAxis> axes = block_axes(c, image, block);
  const Tensor x = dense_tensor(c.in(0), ElementType::f64);
  const int64_t taps = element_count(block);
  c.check(x.dims()[1] % taps == 0, "x has {} rows, no multiple of the block's {} elements",
          x.dims()[1], taps);
  Dims positions;
  for (const WindowAxis& axis : axes) positions.push_back(axis.output);
  const int64_t columns = element_count(positions);
  c.check(x.dims()[2] == columns, "x has {} columns, expected {}", x.dims()[2], columns);
  Dims dims = image;
  dims.insert(dims.begin(), {x.dims()[0], x.dims()[1] / taps});
  const TensorView& out = c.out(0, dims);
  const Tensor y(ElementType::f64, dims);
  const int64_t plane = element_count(image);
  const double* row = x.as<double>();
  for (int64_t i = 0; i < dims[0] * dims[1] * taps; ++i, row += columns) {
    double* target = y.as<double>() + i / taps * plane;
    const double* from = row;
    for_each_index(positions, [&](std::span<const int64_t> at) {
      const int64_t offset = image_offset(axes, at, i % taps);
      if (offset >= 0) target[offset] += *from;
      ++from;
    });
  }
  store_tensor(y, out);
}

}  // namespace

static const Register col2im{{
    .name = "col2im",
    .doc = "Adds blocks x[n, channels * block elements, block positions] into images [n, channels, "
           "image_shape…].",
    .operands = {{"x", kNumeric},
                 {"image_shape", types(ElementType::i64)},
                 {"block_shape", types(ElementType::i64)}},
    .attributes = {{"dilations", AttributeKind::integers, false},
                   {"pads", AttributeKind::integers, false},
                   {"strides", AttributeKind::integers, false}},
    .on_host = {1, 2},
    .infer = infer_col2im,
    .eval = eval_col2im,
}};

}  // namespace lathe
