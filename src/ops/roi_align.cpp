// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "ir/infer.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"

namespace lathe {
namespace {

void infer_roi_align(Infer& c) {
  c.check(c.rank(0) == 4, "x has rank {}, expected 4", c.rank(0));
  c.check(c.rank(1) == 2, "rois have rank {}, expected 2", c.rank(1));
  c.require_equal(c.dim(1, 1), 4, "numbers per region");
  c.require_equal(element_count(c.dims(2)), c.dim(1, 0), "batch indices and regions");
  const std::string& mode = c.text("mode");
  c.check(mode == "avg" || mode == "max", "mode is '{}', expected avg or max", escape(mode));
  const std::string& transform = c.text("coordinate_transformation_mode");
  c.check(transform == "half_pixel" || transform == "output_half_pixel",
          "coordinate_transformation_mode is '{}', expected half_pixel or output_half_pixel",
          escape(transform));
  c.check(c.integer("sampling_ratio") >= 0 && c.integer("sampling_ratio") <= 1024,
          "sampling_ratio is {}, expected 0 to 1024", c.integer("sampling_ratio"));
  c.check(c.integer("output_height") > 0 && c.integer("output_width") > 0,
          "output_height {} or output_width {} is not positive", c.integer("output_height"),
          c.integer("output_width"));
  c.result(c.element(0),
           {c.dim(1, 0), c.dim(0, 1), c.integer("output_height"), c.integer("output_width")});
}

// The four pixels around a sample and their weights; all zero outside the image.
template <class T>
struct Corners {
  int64_t offset[4] = {};
  T weight[4] = {};
};

template <class T>
Corners<T> corners_of(T y, T x, int64_t height, int64_t width) {
  Corners<T> c;
  if (!(y >= -1 && y <= static_cast<T>(height) && x >= -1 && x <= static_cast<T>(width))) return c;
  y = std::clamp(y, T(0), static_cast<T>(height - 1));
  x = std::clamp(x, T(0), static_cast<T>(width - 1));
  const auto y0 = static_cast<int64_t>(y);
  const auto x0 = static_cast<int64_t>(x);
  const int64_t y1 = std::min(y0 + 1, height - 1);
  const int64_t x1 = std::min(x0 + 1, width - 1);
  const T ty = y - static_cast<T>(y0);
  const T tx = x - static_cast<T>(x0);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - ty) * (1 - tx), (1 - ty) * tx, ty * (1 - tx), ty * tx}};
}

struct Pooling {
  int64_t rows, columns;  // of the output
  int64_t ratio;          // samples per bin and axis; 0: as many as the bin has pixels, rounded up
  double scale;
  bool half_pixel, max;
};

// Samples of all bins of one region, bin after bin.
template <class T>
struct Samples {
  int64_t per_bin = 0;
  std::vector<Corners<T>> corners;
};

template <class T>
Samples<T> sample_region(const Pooling& p, const T* roi, int64_t height, int64_t width) {
  const T shift = p.half_pixel ? T(0.5) : T(0);
  const T scale = static_cast<T>(p.scale);
  const T x = roi[0] * scale - shift;
  const T y = roi[1] * scale - shift;
  T w = roi[2] * scale - shift - x;
  T h = roi[3] * scale - shift - y;
  if (!p.half_pixel) {
    w = std::max(w, T(1));
    h = std::max(h, T(1));
  }
  const T bin_h = h / static_cast<T>(p.rows);
  const T bin_w = w / static_cast<T>(p.columns);
  const auto samples = [&](T bin, int64_t size) {
    if (p.ratio > 0) return p.ratio;
    return static_cast<int64_t>(std::clamp(std::ceil(bin), T(0), static_cast<T>(size + 2)));
  };
  const int64_t grid_h = samples(bin_h, height);
  const int64_t grid_w = samples(bin_w, width);
  Samples<T> all;
  all.per_bin = grid_h * grid_w;
  for (int64_t row = 0; row < p.rows; ++row) {
    for (int64_t column = 0; column < p.columns; ++column) {
      for (int64_t i = 0; i < all.per_bin; ++i) {
        const T at_y = y + (static_cast<T>(row) +
                            (static_cast<T>(i / grid_w) + T(0.5)) / static_cast<T>(grid_h)) *
                               bin_h;
        const T at_x = x + (static_cast<T>(column) +
                            (static_cast<T>(i % grid_w) + T(0.5)) / static_cast<T>(grid_w)) *
                               bin_w;
        all.corners.push_back(corners_of(at_y, at_x, height, width));
      }
    }
  }
  return all;
}

template <class T>
T pool_bin(const T* plane, const Corners<T>* corners, int64_t count, bool max) {
  T best = 0;
  T sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    for (int k = 0; k < 4; ++k) {
      const T value = corners[i].weight[k] * plane[corners[i].offset[k]];
      sum += value;
      best = i == 0 && k == 0 ? value : std::max(best, value);
    }
  }
  if (max) return best;
  return sum / static_cast<T>(std::max<int64_t>(count, 1));
}

void eval_roi_align(Evaluation& c) {
  const ElementType type = float_type(c.in(0).type);
  const Tensor x = dense_tensor(c.in(0), type);
  const Tensor rois = dense_tensor(c.in(1), type);
  const std::vector<int64_t> images = indices_of(c, 2, x.dims()[0]);
  const Pooling p{c.integer("output_height"),
                  c.integer("output_width"),
                  c.integer("sampling_ratio"),
                  c.number("spatial_scale"),
                  c.text("coordinate_transformation_mode") == "half_pixel",
                  c.text("mode") == "max"};
  const TensorView& out = c.out(0);
  const Tensor y(type, Dims(out.extents().begin(), out.extents().end()));
  const int64_t channels = x.dims()[1];
  const int64_t plane = x.dims()[2] * x.dims()[3];
  const int64_t bins = p.rows * p.columns;
  if (plane == 0) return c.check(y.count() == 0, "x has an empty plane: {}", plane);
  with_float_type(type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    parallel_for(c.pool, rois.dims()[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t region = begin; region < end; ++region) {
        const Samples<T> samples =
            sample_region(p, rois.as<T>() + region * 4, x.dims()[2], x.dims()[3]);
        const T* from = x.as<T>() + images[static_cast<size_t>(region)] * channels * plane;
        T* to = y.as<T>() + region * channels * bins;
        for (int64_t channel = 0; channel < channels; ++channel, from += plane) {
          for (int64_t bin = 0; bin < bins; ++bin) {
            *to++ = pool_bin(from, samples.corners.data() + bin * samples.per_bin, samples.per_bin,
                             p.max);
          }
        }
      }
    });
  });
  store_tensor(y, out);
}

}  // namespace

static const Register roi_align{{
    .name = "roi_align",
    .doc = "Average or maximum of interpolated samples in each bin of each region: [regions, "
           "channels, output_height, output_width].",
    .operands = {{"x", kFloats, Arity::one, 'T'},
                 {"rois", kFloats, Arity::one, 'T'},
                 {"batch_indices", types(ElementType::i64)}},
    .attributes = {{"coordinate_transformation_mode", "half_pixel"},
                   {"mode", "avg"},
                   {"output_height", 1},
                   {"output_width", 1},
                   {"sampling_ratio", 0},
                   {"spatial_scale", 1.0}},
    .infer = infer_roi_align,
    .eval = eval_roi_align,
}};

}  // namespace lathe
