// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <span>

#include "base/thread_pool.h"
#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

constexpr double kCubic = -0.75;  // a of the cubic convolution kernel

enum class Padding : uint8_t { zeros, border, reflection };

void infer_grid_sample(Infer& c) {
  const int rank = require_rank(c, 0, 3, kMaxRank);
  require_rank(c, 1, rank);
  require_choice(c, "mode", {"linear", "bilinear", "nearest", "cubic", "bicubic"});
  require_choice(c, "padding_mode", {"zeros", "border", "reflection"});
  c.require_equal(c.dim(0, 0), c.dim(1, 0), "batch of x and grid");
  c.require_equal(c.dims(1).back(), rank - 2, "grid's last axis");
  std::vector<Dim> dims = {c.dim(0, 0), c.dim(0, 1)};
  dims.insert(dims.end(), c.dims(1).begin() + 1, c.dims(1).end() - 1);
  c.result(c.element(0), std::move(dims));
}

struct Sampler {
  Dims spatial;  // sizes of the image's axes
  Dims strides;
  Padding padding = Padding::zeros;
  bool align = false;
  int taps = 2;  // per axis: 1 nearest, 2 linear, 4 cubic

  // Pixel coordinate of a grid value in [-1, 1].
  template <class T>
  T pixel(T value, size_t axis) const {
    const auto n = static_cast<T>(spatial[axis]);
    return align ? (value + 1) / 2 * (n - 1) : ((value + 1) * n - 1) / 2;
  }

  // A coordinate mirrored at the edges of the image until it is inside.
  template <class T>
  T reflected(T x, size_t axis) const {
    const T low = align ? T(0) : T(-0.5);
    const T high = static_cast<T>(spatial[axis]) - (align ? T(1) : T(0.5));
    const T range = high - low;
    if (!(range > 0)) return 0;
    T offset = std::fmod(std::abs(x - low), 2 * range);
    if (offset > range) offset = 2 * range - offset;
    return low + offset;
  }

  // A coordinate after padding; zeros leaves it outside.
  template <class T>
  T padded(T x, size_t axis) const {
    const T last = static_cast<T>(spatial[axis] - 1);
    if (padding == Padding::border) return std::clamp(x, T(0), last);
    if (padding == Padding::reflection) return std::clamp(reflected(x, axis), T(0), last);
    return x;
  }

  // Offset along the axis of an integer position, or -1 where padding is zero.
  template <class T>
  int64_t offset(T position, size_t axis) const {
    const T at = padded(position, axis);
    if (!(at >= 0 && at <= static_cast<T>(spatial[axis] - 1))) return -1;
    return static_cast<int64_t>(at) * strides[axis];
  }
};

// Weights of the taps of one axis and the position of the first one.
template <class T>
T tap_weights(const Sampler& s, T x, T (&weights)[4]) {
  if (s.taps == 1) {
    weights[0] = 1;
    return std::nearbyint(x);
  }
  const T floor = std::floor(x);
  const T t = x - floor;
  if (s.taps == 2) {
    weights[0] = 1 - t;
    weights[1] = t;
    return floor;
  }
  const auto a = static_cast<T>(kCubic);
  const auto outer = [&](T d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };  // 1 < d < 2
  const auto inner = [&](T d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };        // d < 1
  weights[0] = outer(t + 1);
  weights[1] = inner(t);
  weights[2] = inner(1 - t);
  weights[3] = outer(2 - t);
  return floor - 1;
}

struct Tap {
  int64_t offset;
  double weight;
};

// All taps of one output position: products of the axes' weights.
template <class T>
void find_taps(const Sampler& s, const T* grid, std::vector<Tap>& taps) {
  taps.assign(1, {0, 1});
  std::vector<Tap> wider;
  const size_t n = s.spatial.size();
  for (size_t axis = 0; axis < n; ++axis) {
    T x = s.pixel(grid[n - 1 - axis], axis);  // the grid's x is the last axis
    if (s.taps < 4) x = s.padded(x, axis);
    T weights[4];
    const T first = tap_weights(s, x, weights);
    wider.clear();
    for (const Tap& tap : taps) {
      for (int i = 0; i < s.taps; ++i) {
        const int64_t offset = s.offset(first + static_cast<T>(i), axis);
        if (offset >= 0) {
          wider.push_back({tap.offset + offset, tap.weight * static_cast<double>(weights[i])});
        }
      }
    }
    std::swap(taps, wider);
  }
}

struct Shape {
  int64_t images, channels, plane, outputs;
};

template <class T>
void sample(ThreadPool* pool, const Sampler& s, const Shape& shape, const T* x, const T* grid,
            T* y) {
  const auto axes = static_cast<int64_t>(s.spatial.size());
  parallel_for(pool, shape.images * shape.outputs, 256, [&](int64_t begin, int64_t end) {
    std::vector<Tap> taps;
    for (int64_t i = begin; i < end; ++i) {
      find_taps(s, grid + i * axes, taps);
      const T* from = x + i / shape.outputs * shape.channels * shape.plane;
      T* to = y + i / shape.outputs * shape.channels * shape.outputs + i % shape.outputs;
      for (int64_t channel = 0; channel < shape.channels; ++channel) {
        double sum = 0;
        for (const Tap& tap : taps) sum += tap.weight * static_cast<double>(from[tap.offset]);
        *to = static_cast<T>(sum);
        from += shape.plane;
        to += shape.outputs;
      }
    }
  });
}

// The pixels around a position of a plane; one of weight 0 does not count.
template <class T>
struct PlaneTaps {
  int32_t offset[4];
  T weight[4];
};

template <class T>
PlaneTaps<T> plane_taps(const Sampler& s, const T* grid) {
  int64_t offset[2][2] = {};
  T weight[2][4] = {};
  for (size_t axis = 0; axis < 2; ++axis) {
    const T first = tap_weights(s, s.padded(s.pixel(grid[1 - axis], axis), axis), weight[axis]);
    for (int i = 0; i < s.taps; ++i) {
      offset[axis][i] = s.offset(first + static_cast<T>(i), axis);
      if (offset[axis][i] < 0) offset[axis][i] = 0, weight[axis][i] = 0;
    }
  }
  PlaneTaps<T> out;
  for (int i = 0; i < 4; ++i) {
    out.offset[i] = static_cast<int32_t>(offset[0][i / 2] + offset[1][i % 2]);
    out.weight[i] = weight[0][i / 2] * weight[1][i % 2];
  }
  return out;
}

template <class T>
void sample_plane(std::span<const PlaneTaps<T>> taps, const T* from, T* to) {
  for (const PlaneTaps<T>& tap : taps) {
    T parts[4];
    for (int k = 0; k < 4; ++k) {
      const T part = tap.weight[k] * from[tap.offset[k]];
      parts[k] = tap.weight[k] != 0 ? part : T(0);
    }
    *to++ = parts[0] + parts[1] + (parts[2] + parts[3]);
  }
}

// Nearest and linear sampling of planes: the taps of many positions serve all channels, one channel
// after the other, whose plane stays in the L2 cache.
template <class T>
void sample_planes(ThreadPool* pool, const Sampler& s, const Shape& shape, const T* x,
                   const T* grid, T* y) {
  constexpr int64_t kMost = 1 << 18;
  constexpr int64_t kPiece = 8192;
  std::vector<PlaneTaps<T>> taps(static_cast<size_t>(std::min(kMost, shape.outputs)));
  for (int64_t done = 0; done < shape.images * shape.outputs;) {
    const int64_t image = done / shape.outputs;
    const int64_t first = done % shape.outputs;
    const int64_t count = std::min(kMost, shape.outputs - first);
    parallel_for(pool, count, 512, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        taps[static_cast<size_t>(i)] = plane_taps(s, grid + (done + i) * 2);
      }
    });
    const int64_t pieces = (count + kPiece - 1) / kPiece;
    parallel_for(pool, shape.channels * pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t plane = image * shape.channels + at / pieces;
        const int64_t from = at % pieces * kPiece;
        const std::span<const PlaneTaps<T>> piece(
            taps.data() + from, static_cast<size_t>(std::min(kPiece, count - from)));
        sample_plane(piece, x + plane * shape.plane, y + plane * shape.outputs + first + from);
      }
    });
    done += count;
  }
}

void eval_grid_sample(Evaluation& c) {
  const ElementType type = c.in(0).type == ElementType::f64 || c.in(1).type == ElementType::f64
                               ? ElementType::f64
                               : ElementType::f32;
  const DenseOperand x(c.in(0), type);
  const DenseOperand grid(c.in(1), type);
  const DenseResult y(c.out(0), type);
  const std::string& mode = c.text("mode");
  const std::string& padding = c.text("padding_mode");
  Sampler s;
  s.spatial.assign(x.view().extents().begin() + 2, x.view().extents().end());
  s.strides = Tensor::dense_strides(s.spatial);
  s.align = c.boolean("align_corners");
  s.taps = mode == "nearest" ? 1 : mode.ends_with("cubic") ? 4 : 2;
  s.padding = padding == "zeros"    ? Padding::zeros
              : padding == "border" ? Padding::border
                                    : Padding::reflection;
  Shape shape{grid.extent(0), x.extent(1), s.spatial[0] * s.strides[0], 0};
  const auto axes = static_cast<int64_t>(s.spatial.size());
  if (shape.images > 0) shape.outputs = grid.count() / axes / shape.images;
  const bool planes = axes == 2 && s.taps < 4 && shape.plane > 0 && shape.plane < (1 << 30);
  with_float_type(type, [&]<class T>(T*) {
    const auto run = planes ? sample_planes<T> : sample<T>;
    run(c.pool, s, shape, x.as<T>(), grid.as<T>(), y.as<T>());
  });
  y.store();
}

}  // namespace

static const Register grid_sample{{
    .name = "grid_sample",
    .doc = "x[n, c, spatial…] interpolated at the normalised coordinates of `grid`.",
    .operands = {{"x", kNumeric}, {"grid", kFloats}},
    .attributes = {{"align_corners", Attribute(false)},
                   {"mode", "linear"},
                   {"padding_mode", "zeros"}},
    .infer = infer_grid_sample,
    .eval = eval_grid_sample,
}};

}  // namespace lathe
