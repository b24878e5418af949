// SPDX-License-Identifier: MIT
#include <cmath>

#include "base/thread_pool.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"
#include "ops/support/requirements.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

void infer_crop_and_resize(Infer& c) {
  require_ranks(c, {4, 2});
  c.require_equal(c.dim(1, 1), 4, "numbers per region");
  require_count(c, 2, c.dim(1, 0));
  require_choice(c, "mode", {"bilinear", "nearest"});
  const std::vector<Dim> size = dims_of_elements(c, 3, 0, 2, "crop");
  c.result(c.element(0), {c.dim(1, 0), c.dim(0, 1), size[0], size[1]});
}

// Pixels around a sample along one axis, and the weight of the second; outside the image: none.
template <class T>
struct Tap {
  int64_t first = -1, second = -1;
  T weight = 0;
};

// Samples from the first pixel of [begin, end] to its last, in units of the image.
template <class T>
std::vector<Tap<T>> taps_of(T begin, T end, int64_t size, int64_t count, bool nearest) {
  std::vector<Tap<T>> taps(static_cast<size_t>(count));
  const T last = static_cast<T>(size - 1);
  for (int64_t i = 0; i < count; ++i) {
    T place = count > 1 ? begin * last : T(0.5) * (begin + end) * last;
    if (count > 1 && i > 0) {
      const T step = (end - begin) * last / static_cast<T>(count - 1);
      place = i == count - 1 ? end * last : place + static_cast<T>(i) * step;
    }
    if (!(place >= 0 && place <= last)) continue;
    const auto at = static_cast<int64_t>(nearest ? std::round(place) : std::floor(place));
    const auto next = nearest ? at : static_cast<int64_t>(std::ceil(place));
    taps[static_cast<size_t>(i)] = {at, next, nearest ? T(0) : place - static_cast<T>(at)};
  }
  return taps;
}

template <class T>
T sample(const T* plane, int64_t width, const Tap<T>& row, const Tap<T>& column) {
  const auto between = [&](int64_t y) {
    const T left = plane[y * width + column.first];
    return left + (plane[y * width + column.second] - left) * column.weight;
  };
  const T top = between(row.first);
  return top + (between(row.second) - top) * row.weight;
}

void eval_crop_and_resize(Evaluation& c) {
  const ElementType type = float_type(c.in(0).type);
  const Tensor x = dense_tensor(c.in(0), type);
  const Tensor rois = dense_tensor(c.in(1), type);
  const std::vector<int64_t> images = indices_of(c, 2, x.dims()[0]);
  const std::vector<int64_t> size = c.values(3);
  c.check(size[0] > 0 && size[1] > 0, "crop_size is {} by {}, expected positive sizes", size[0],
          size[1]);
  const int64_t channels = x.dims()[1];
  const int64_t width = x.dims()[3];
  const int64_t plane = x.dims()[2] * width;
  const TensorView& out = c.out(0, Dims{rois.dims()[0], channels, size[0], size[1]});
  const Tensor y(type, dims_of(out));
  const bool nearest = c.text("mode") == "nearest";
  with_float_type(type, [&]<class T>(T*) {
    const T outside = static_cast<T>(c.number("extrapolation_value"));
    parallel_for(c.pool, rois.dims()[0], 1, [&](int64_t begin, int64_t end) {
      for (int64_t region = begin; region < end; ++region) {
        const T* roi = rois.as<T>() + region * 4;
        const auto rows = taps_of<T>(roi[0], roi[2], x.dims()[2], size[0], nearest);
        const auto columns = taps_of<T>(roi[1], roi[3], width, size[1], nearest);
        const T* from = x.as<T>() + images[static_cast<size_t>(region)] * channels * plane;
        T* to = y.as<T>() + region * channels * size[0] * size[1];
        for (int64_t channel = 0; channel < channels; ++channel, from += plane) {
          for (const Tap<T>& row : rows) {
            for (const Tap<T>& column : columns) {
              const bool inside = row.first >= 0 && column.first >= 0;
              *to++ = inside ? sample(from, width, row, column) : outside;
            }
          }
        }
      }
    });
  });
  store_tensor(y, out);
}

}  // namespace

static const Register crop_and_resize{{
    .name = "crop_and_resize",
    .doc = "Regions [y1, x1, y2, x2] of images, as shares of their sizes, resized to crop_size.",
    .operands = {{"x", kFloats, Arity::one, 'T'},
                 {"rois", kFloats, Arity::one, 'T'},
                 {"batch_indices", kIndices},
                 {"crop_size", kIndices}},
    .attributes = {{"extrapolation_value", 0.0}, {"mode", "bilinear"}},
    .infer = infer_crop_and_resize,
    .eval = eval_crop_and_resize,
}};

}  // namespace lathe
