// SPDX-License-Identifier: MIT
#include "runtime/difference.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/convert.h"

namespace lathe {
namespace {

std::string shape_of(const Box& box) {
  if (box.is_tensor()) return to_string(box.tensor().type(), box.tensor().dims());
  if (box.is_sequence()) return fmt::format("a sequence of {}", box.sequence().size());
  return box.empty() ? "nothing" : "a map";
}

// Elements of a tensor as doubles; two per complex element.
struct Numbers {
  explicit Numbers(const Tensor& dense)
      : data(dense.data()), type(dense.type()), count(dense.count()) {
    if (type == ElementType::c64 || type == ElementType::c128) {
      type = type == ElementType::c64 ? ElementType::f32 : ElementType::f64;
      count *= 2;
    }
  }
  double at(int64_t i) const { return load_double(type, data, i); }
  const void* data;
  ElementType type;
  int64_t count;
};

Difference compare_floats(const Tensor& actual, const Tensor& expected,
                          const Tolerance& tolerance) {
  const Numbers a(actual);
  const Numbers b(expected);
  Difference out;
  out.limit = tolerance.relative > 0 ? tolerance.relative : usual_error(a.type);
  double largest = 0;
  double furthest = 0;
  int64_t place = 0;
  for (int64_t i = 0; i < b.count; ++i) {
    const double x = a.at(i);
    const double y = b.at(i);
    const bool same = x == y || (std::isnan(x) && std::isnan(y));
    if (!same && (!std::isfinite(x) || !std::isfinite(y))) {
      out.error = INFINITY;
      out.text = fmt::format("element {} is {}, expected {}", i, x, y);
      return out;
    }
    if (std::isfinite(y)) largest = std::max(largest, std::abs(y));
    if (!same && std::abs(x - y) > furthest) {
      furthest = std::abs(x - y);
      place = i;
    }
  }
  out.error = furthest == 0 ? 0 : furthest / largest;
  if (out.error > out.limit && furthest > tolerance.absolute) {
    out.text = fmt::format("element {} is {}, expected {}", place, a.at(place), b.at(place));
  }
  return out;
}

// Values that round the same sums in another order lie above as often as below. Truncation, or a
// zero point that is off by one, moves many of them to one side.
bool is_one_sided(int64_t above, int64_t below, int64_t count) {
  const auto differing = static_cast<double>(above + below);
  const auto excess = static_cast<double>(std::abs(above - below));
  return differing >= 64 && differing > static_cast<double>(count) / 16 &&
         excess > 6 * std::sqrt(differing);
}

Difference compare_integers(const Tensor& actual, const Tensor& expected, int64_t steps) {
  const ElementType type = expected.type();
  Difference out;
  double furthest = 0;
  double largest = 0;
  int64_t above = 0;
  int64_t below = 0;
  for (int64_t i = 0; i < expected.count(); ++i) {
    const int64_t x = load_int(type, actual.data(), i);
    const int64_t y = load_int(type, expected.data(), i);
    largest = std::max(largest, std::abs(static_cast<double>(y)));
    if (x == y) continue;
    ++(x > y ? above : below);
    const double distance = std::abs(static_cast<double>(x) - static_cast<double>(y));
    furthest = std::max(furthest, distance);
    if (out.text.empty() && distance > static_cast<double>(steps)) {
      out.text = fmt::format("element {} is {}, expected {}", i, x, y);
    }
  }
  out.error = furthest == 0 ? 0 : furthest / std::max(largest, 1.0);
  if (out.text.empty() && is_one_sided(above, below, expected.count())) {
    out.text = fmt::format("{} of {} elements are above and {} below what was expected", above,
                           expected.count(), below);
  }
  return out;
}

Difference compare_texts(const Tensor& actual, const Tensor& expected) {
  const auto a = actual.elements<std::string>();
  const auto b = expected.elements<std::string>();
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] != b[i]) {
      return {1, 0,
              fmt::format("element {} is '{}', expected '{}'", i, escape(a[i]), escape(b[i]))};
    }
  }
  return {};
}

Difference compare_tensors(const Tensor& actual, const Tensor& expected,
                           const Tolerance& tolerance) {
  if (actual.type() != expected.type() || actual.dims() != expected.dims()) {
    return {INFINITY, 0,
            fmt::format("{}, expected {}", to_string(actual.type(), actual.dims()),
                        to_string(expected.type(), expected.dims()))};
  }
  const Tensor a = actual.dense();
  const Tensor b = expected.dense();
  switch (info(b.type()).cls) {
    case ElementClass::string:
      return compare_texts(a, b);
    case ElementClass::floating:
    case ElementClass::complex:
      return compare_floats(a, b, tolerance);
    default:
      return compare_integers(a, b, b.type() == ElementType::boolean ? 0 : tolerance.steps);
  }
}

Difference compare_items(const std::vector<Box>& actual, const std::vector<Box>& expected,
                         const Tolerance& tolerance) {
  Difference worst;
  for (size_t i = 0; i < expected.size(); ++i) {
    Difference found = compare_values(actual[i], expected[i], tolerance);
    if (!found.equal()) {
      found.text = fmt::format("item {}: {}", i, found.text);
      return found;
    }
    if (found.error >= worst.error) worst = std::move(found);
  }
  return worst;
}

}  // namespace

double usual_error(ElementType type) {
  switch (type) {
    case ElementType::f64:
      return 1e-9;
    case ElementType::f32:
      return 1e-4;
    case ElementType::f16:
      return 1e-2;  // one rounding: 2^-11; results are rounded several times
    case ElementType::bf16:
      return 5e-2;
    default:
      return is_floating(type) ? 0.25 : 0;
  }
}

Difference compare_values(const Box& actual, const Box& expected, const Tolerance& tolerance) {
  if (actual.value.index() != expected.value.index() ||
      (actual.is_sequence() && actual.sequence().size() != expected.sequence().size())) {
    return {INFINITY, 0, fmt::format("{}, expected {}", shape_of(actual), shape_of(expected))};
  }
  if (expected.empty()) return {};
  if (expected.is_tensor()) return compare_tensors(actual.tensor(), expected.tensor(), tolerance);
  if (expected.is_sequence()) {
    return compare_items(actual.sequence(), expected.sequence(), tolerance);
  }
  const BoxMap& a = *std::get<std::shared_ptr<const BoxMap>>(actual.value);
  const BoxMap& b = *std::get<std::shared_ptr<const BoxMap>>(expected.value);
  Difference keys = compare_tensors(a.keys, b.keys, tolerance);
  return keys.equal() ? compare_items(a.values, b.values, tolerance) : keys;
}

Divergence compare_distributions(const Tensor& actual, const Tensor& expected) {
  const Tensor a = actual.dense();
  const Tensor b = expected.dense();
  Divergence out;
  if (a.type() != b.type() || a.dims() != b.dims() || b.rank() == 0 || b.count() == 0) return out;
  const int64_t width = b.dims().back();
  out.rows = b.count() / width;
  int64_t agreeing = 0;
  double sum = 0;
  std::vector<double> p(static_cast<size_t>(width));
  std::vector<double> q(static_cast<size_t>(width));
  const auto log_softmax = [&](const Tensor& tensor, int64_t row, std::vector<double>& values) {
    double largest = -INFINITY;
    for (int64_t i = 0; i < width; ++i) {
      const double value = load_double(tensor.type(), tensor.data(), row * width + i);
      values[static_cast<size_t>(i)] = value;
      largest = std::max(largest, value);
    }
    const auto top = std::max_element(values.begin(), values.end()) - values.begin();
    double total = 0;
    for (const double value : values) total += std::exp(value - largest);
    for (double& value : values) value -= largest + std::log(total);
    return top;
  };
  double noise = 0;
  double signal = 0;
  for (int64_t i = 0; i < b.count(); ++i) {
    const double x = load_double(a.type(), a.data(), i);
    const double y = load_double(b.type(), b.data(), i);
    noise += (x - y) * (x - y);
    signal += y * y;
  }
  out.noise = noise == 0 ? 0 : std::sqrt(noise / signal);
  for (int64_t row = 0; row < out.rows; ++row) {
    const auto top_q = log_softmax(a, row, q);
    const auto top_p = log_softmax(b, row, p);
    agreeing += top_p == top_q ? 1 : 0;
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] > -745) sum += std::exp(p[i]) * (p[i] - q[i]);  // exp underflows below
    }
  }
  out.mean_kl = std::max(sum / static_cast<double>(out.rows), 0.0);
  out.top1 = static_cast<double>(agreeing) / static_cast<double>(out.rows);
  return out;
}

}  // namespace lathe
