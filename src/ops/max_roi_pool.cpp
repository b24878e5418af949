// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/support/dense_tensor.h"
#include "ops/support/number_order.h"
#include "ops/support/requirements.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_max_roi_pool(Infer& c) {
  require_ranks(c, {4, 2});
  c.require_equal(c.dim(1, 1), 5, "numbers per region");
  const Integers& shape = c.integers("pooled_shape");
  c.check(shape.size() == 2 && shape[0] > 0 && shape[1] > 0,
          "pooled_shape has {} entries, expected two positive ones", shape.size());
  c.result(c.element(0), {c.dim(1, 0), c.dim(0, 1), shape[0], shape[1]});
}

struct Bins {
  int64_t first, last;  // pixels [first, last)
};

// Bin i of n over the region [begin, end], cut to the image.
Bins bin_of(int64_t i, int64_t n, double begin, double end, int64_t size) {
  const double extent = std::max(end - begin + 1, 1.0) / static_cast<double>(n);
  const auto at = [&](double place) { return cut_to_integer(place + begin, 0, size); };
  return {at(std::floor(static_cast<double>(i) * extent)),
          at(std::ceil(static_cast<double>(i + 1) * extent))};
}

void eval_max_roi_pool(Evaluation& c) {
  const Tensor x = dense_tensor(c.in(0), ElementType::f64);
  const Tensor rois = dense_tensor(c.in(1), ElementType::f64);
  const Integers& shape = c.integers("pooled_shape");
  const double scale = c.number("spatial_scale");
  const TensorView& out = c.out(0);
  const Tensor y(ElementType::f64, dims_of(out));
  double* to = y.as<double>();
  const int64_t height = x.dims()[2];
  const int64_t width = x.dims()[3];
  for (int64_t region = 0; region < rois.dims()[0]; ++region) {
    const double* roi = rois.as<double>() + region * 5;
    c.check(roi[0] >= 0 && roi[0] < static_cast<double>(x.dims()[0]),
            "region {} is in image {}, the batch has {}", region, roi[0], x.dims()[0]);
    const auto edge = [&](int i) { return std::round(roi[i] * scale); };
    const double* plane =
        x.as<double>() + static_cast<int64_t>(roi[0]) * x.dims()[1] * height * width;
    for (int64_t channel = 0; channel < x.dims()[1]; ++channel, plane += height * width) {
      for (int64_t i = 0; i < shape[0] * shape[1]; ++i) {
        const Bins rows = bin_of(i / shape[1], shape[0], edge(2), edge(4), height);
        const Bins columns = bin_of(i % shape[1], shape[1], edge(1), edge(3), width);
        double best = rows.first < rows.last && columns.first < columns.last
                          ? -std::numeric_limits<double>::infinity()
                          : 0;
        for (int64_t row = rows.first; row < rows.last; ++row) {
          for (int64_t column = columns.first; column < columns.last; ++column) {
            best = std::max(best, plane[row * width + column]);
          }
        }
        *to++ = best;
      }
    }
  }
  store_tensor(y, out);
}

}  // namespace

static const Register max_roi_pool{{
    .name = "max_roi_pool",
    .doc = "The maximum of each bin of each region [image, x0, y0, x1, y1]; 0 for an empty bin.",
    .operands = {{"x", kFloats, Arity::one, 'T'}, {"rois", kFloats, Arity::one, 'T'}},
    .attributes = {{"pooled_shape", AttributeKind::integers}, {"spatial_scale", 1.0}},
    .infer = infer_max_roi_pool,
    .eval = eval_max_roi_pool,
}};

}  // namespace lathe
