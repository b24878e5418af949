// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "base/thread_pool.h"
#include "ops/support/dense_operand.h"
#include "ops/support/dense_tensor.h"
#include "ops/support/indices.h"
#include "ops/support/number_order.h"
#include "ops/support/requirements.h"

namespace lathe {
namespace {

void infer_roi_align(Infer& c) {
  require_ranks(c, {4, 2});
  c.require_equal(c.dim(1, 1), 4, "numbers per region");
  c.require_equal(element_count(c.dims(2)), c.dim(1, 0), "batch indices and regions");
  require_choice(c, "mode", {"avg", "max"});
  require_choice(c, "coordinate_transformation_mode", {"half_pixel", "output_half_pixel"});
  require_integer(c, "sampling_ratio", 0, 1024);
  c.result(c.element(0), {c.dim(1, 0), c.dim(0, 1), require_integer(c, "output_height", 1),
                          require_integer(c, "output_width", 1)});
}

// The pixels around a sample along one axis, and the weight of the second.
template <class T>
struct Tap {
  int64_t first, second;
  T weight;
};

template <class T>
Tap<T> tap_of(T place, int64_t size) {
  place = std::clamp(place, T(0), static_cast<T>(size - 1));
  const auto first = static_cast<int64_t>(place);
  return {first, std::min(first + 1, size - 1), place - static_cast<T>(first)};
}

struct Pooling {
  int64_t rows, columns;  // of the output
  int64_t ratio;          // samples per bin and axis; 0: as many as the bin has pixels, rounded up
  double scale;
  bool half_pixel, max;
};

// Samples of all bins of a region along one axis, bin after bin; those outside the image, which are
// zero, are only counted: a region may be much larger than the image.
template <class T>
struct Samples {
  int64_t per_bin = 0;
  std::vector<Tap<T>> taps;
  std::vector<size_t> ends{0};  // of the bins' taps, after a 0

  std::span<const Tap<T>> of_bin(int64_t bin) const {
    const size_t begin = ends[static_cast<size_t>(bin)];
    return std::span(taps).subspan(begin, ends[static_cast<size_t>(bin) + 1] - begin);
  }
};

// `begin` and `end` are in units of x, of `size` pixels.
template <class T>
Samples<T> sample_axis(const Pooling& p, T begin, T end, int64_t bins, int64_t size) {
  const T shift = p.half_pixel ? T(0.5) : T(0);
  const T scale = static_cast<T>(p.scale);
  const T from = begin * scale - shift;
  T extent = end * scale - shift - from;
  if (!p.half_pixel) extent = std::max(extent, T(1));
  const T bin = extent / static_cast<T>(bins);
  Samples<T> all;
  all.per_bin = p.ratio > 0 ? p.ratio : cut_to_integer(std::ceil(bin), 0, INT32_MAX);
  const auto samples = static_cast<T>(all.per_bin);
  // About the number of samples of bin `i` that lie before a place.
  const auto count_before = [&](int64_t i, T place) {
    return ((place - from) / bin - static_cast<T>(i)) * samples;
  };
  all.ends.reserve(static_cast<size_t>(bins) + 1);
  for (int64_t i = 0; i < bins; ++i) {
    int64_t first = 0, last = all.per_bin;
    if (p.ratio == 0) {
      first = cut_to_integer(std::floor(count_before(i, -1)) - 2, 0, last);
      last = cut_to_integer(std::ceil(count_before(i, static_cast<T>(size))) + 2, 0, last);
    }
    for (int64_t k = first; k < last; ++k) {
      const T inside = (static_cast<T>(k) + T(0.5)) / samples;
      const T place = from + (static_cast<T>(i) + inside) * bin;
      if (place >= -1 && place <= static_cast<T>(size)) all.taps.push_back(tap_of(place, size));
    }
    all.ends.push_back(all.taps.size());
  }
  return all;
}

template <class T>
T pool_bin(const T* plane, int64_t width, std::span<const Tap<T>> rows,
           std::span<const Tap<T>> columns, int64_t count, bool max) {
  const bool are_all_inside =
      count > 0 && static_cast<int64_t>(rows.size() * columns.size()) == count;
  T best = are_all_inside ? -std::numeric_limits<T>::infinity() : T(0);
  T sum = 0;
  for (const Tap<T>& y : rows) {
    const T* top = plane + y.first * width;
    const T* bottom = plane + y.second * width;
    for (const Tap<T>& x : columns) {
      const T values[4] = {
          (1 - y.weight) * (1 - x.weight) * top[x.first], (1 - y.weight) * x.weight * top[x.second],
          y.weight * (1 - x.weight) * bottom[x.first], y.weight * x.weight * bottom[x.second]};
      for (const T value : values) {
        sum += value;
        best = std::max(best, value);
      }
    }
  }
  return max ? best : sum / static_cast<T>(std::max<int64_t>(count, 1));
}

// A sample of a bin inside the image: four pixels and their weights.
template <class T>
struct PlaneSample {
  int64_t offset[4];
  T weight[4];
};

// The samples of all bins of a region, for averages over many channels.
template <class T>
class RegionSamples {
 public:
  static constexpr size_t kMost = 1 << 14;

  RegionSamples(const Pooling& p, const Samples<T>& down, const Samples<T>& right, int64_t width)
      : divisor_(static_cast<T>(std::max<int64_t>(down.per_bin * right.per_bin, 1))) {
    for (int64_t bin = 0; bin < p.rows * p.columns; ++bin) {
      for (const Tap<T>& y : down.of_bin(bin / p.columns)) {
        for (const Tap<T>& x : right.of_bin(bin % p.columns)) {
          const int64_t top = y.first * width;
          const int64_t bottom = y.second * width;
          all_.push_back({{top + x.first, top + x.second, bottom + x.first, bottom + x.second},
                          {(1 - y.weight) * (1 - x.weight), (1 - y.weight) * x.weight,
                           y.weight * (1 - x.weight), y.weight * x.weight}});
        }
      }
      ends_.push_back(all_.size());
    }
  }

  void average(const T* plane, T* to) const {
    size_t at = 0;
    for (const size_t end : ends_) {
      T sums[4] = {};  // independent additions
      for (; at < end; ++at) {
        const PlaneSample<T>& s = all_[at];
        for (int k = 0; k < 4; ++k) sums[k] += s.weight[k] * plane[s.offset[k]];
      }
      *to++ = (sums[0] + sums[1] + (sums[2] + sums[3])) / divisor_;
    }
  }

 private:
  T divisor_;
  std::vector<PlaneSample<T>> all_;
  std::vector<size_t> ends_;
};

void eval_roi_align(Evaluation& c) {
  const ElementType type = float_type(c.in(0).type);
  const DenseOperand x(c.in(0), type);
  const DenseOperand rois(c.in(1), type);
  const std::vector<int64_t> images = indices_of(c, 2, x.extent(0));
  const Pooling p{c.integer("output_height"),
                  c.integer("output_width"),
                  c.integer("sampling_ratio"),
                  c.number("spatial_scale"),
                  c.text("coordinate_transformation_mode") == "half_pixel",
                  c.text("mode") == "max"};
  const DenseResult y(c.out(0), type);
  const int64_t channels = x.extent(1);
  const int64_t plane = x.extent(2) * x.extent(3);
  const int64_t bins = p.rows * p.columns;
  if (plane == 0) return c.check(y.count() == 0, "x has an empty plane: {}", plane);
  with_float_type(type, [&]<class T>(T*) {
    parallel_for(c.pool, rois.extent(0), 1, [&](int64_t begin, int64_t end) {
      for (int64_t region = begin; region < end; ++region) {
        const T* roi = rois.as<T>() + region * 4;
        const Samples<T> down = sample_axis(p, roi[1], roi[3], p.rows, x.extent(2));
        const Samples<T> right = sample_axis(p, roi[0], roi[2], p.columns, x.extent(3));
        const T* from = x.as<T>() + images[static_cast<size_t>(region)] * channels * plane;
        T* to = y.as<T>() + region * channels * bins;
        if (!p.max && down.taps.size() * right.taps.size() <= RegionSamples<T>::kMost) {
          const RegionSamples<T> samples(p, down, right, x.extent(3));
          for (int64_t i = 0; i < channels; ++i) samples.average(from + i * plane, to + i * bins);
          continue;
        }
        for (int64_t channel = 0; channel < channels; ++channel, from += plane) {
          for (int64_t bin = 0; bin < bins; ++bin) {
            *to++ = pool_bin(from, x.extent(3), down.of_bin(bin / p.columns),
                             right.of_bin(bin % p.columns), down.per_bin * right.per_bin, p.max);
          }
        }
      }
    });
  });
  y.store();
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
