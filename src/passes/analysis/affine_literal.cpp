// SPDX-License-Identifier: MIT
#include "passes/analysis/affine_literal.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/convert.h"
#include "tensor/mapped.h"

namespace lathe {
namespace {

using Found = std::optional<AffineValue>;

constexpr int64_t kLargestTriangle = 8192;
constexpr double kLongestCount = 1 << 24;

// Integers in arithmetic progression along one axis.
Found counting_in(const Tensor& tensor) {
  const Dims& dims = tensor.dims();
  const auto along = std::ranges::find_if(dims, [](int64_t extent) { return extent > 1; });
  if (*along != tensor.count() || tensor.type() == ElementType::boolean) return std::nullopt;
  const auto bytes = static_cast<size_t>(info(tensor.type()).bits / 8);
  const auto* data = static_cast<const std::byte*>(tensor.data());
  double values[2] = {};
  convert(ElementType::f64, values, tensor.type(), data, 2);
  const double step = values[1] - values[0];
  if (step == 0 || !(std::abs(values[0]) < kLongestCount && std::abs(step) < kLongestCount) ||
      std::trunc(values[0]) != values[0] || std::trunc(step) != step) {
    return std::nullopt;
  }
  for (int64_t i = 2; i < tensor.count(); ++i) {
    double value = 0;
    convert(ElementType::f64, &value, tensor.type(), data + static_cast<size_t>(i) * bytes, 1);
    if (value != values[0] + step * static_cast<double>(i)) return std::nullopt;
  }
  Linear linear{std::vector<int64_t>(dims.size(), 0), static_cast<int64_t>(values[0])};
  linear.steps[static_cast<size_t>(along - dims.begin())] = static_cast<int64_t>(step);
  return AffineValue::index(std::move(linear));
}

// A square causal mask: one value in the lower triangle, another above, as older models store it.
Found triangle_in(const Tensor& tensor) {
  const Dims& dims = tensor.dims();
  const int64_t side = dims.back();
  if (tensor.rank() < 2 || side < 2 || side > kLargestTriangle || tensor.count() != side * side ||
      dims[dims.size() - 2] != side) {
    return std::nullopt;
  }
  const auto bytes = static_cast<size_t>(info(tensor.type()).bits / 8);
  const auto* data = static_cast<const std::byte*>(tensor.data());
  const auto at = [&](int64_t row, int64_t column) {
    return data + static_cast<size_t>(row * side + column) * bytes;
  };
  for (int64_t row = 0; row < side; ++row) {
    for (int64_t column = 0; column < side; ++column) {
      const std::byte* expected = column <= row ? at(0, 0) : at(0, 1);
      if (std::memcmp(at(row, column), expected, bytes) != 0) return std::nullopt;
    }
  }
  double values[2] = {};
  convert(ElementType::f64, values, tensor.type(), data, 2);
  Linear linear{std::vector<int64_t>(dims.size(), 0), 0};
  linear.steps[dims.size() - 2] = 1;
  linear.steps[dims.size() - 1] = -1;
  return AffineValue{std::nullopt, {std::move(linear)}, values[0], values[1]};
}

// Integers that are all equal.
Found repeated_in(const Tensor& tensor) {
  const auto bytes = static_cast<size_t>(info(tensor.type()).bits / 8);
  const auto* data = static_cast<const std::byte*>(tensor.data());
  const auto rest = static_cast<size_t>(tensor.count() - 1) * bytes;
  if (!is_integer(tensor.type()) || std::memcmp(data, data + bytes, rest) != 0) return std::nullopt;
  double value = 0;
  convert(ElementType::f64, &value, tensor.type(), data, 1);
  return AffineValue::constant(value);
}

}  // namespace

std::optional<AffineValue> affine_literal(const Tensor& tensor) {
  if (tensor.count() < 1 || tensor.type() == ElementType::string || !tensor.is_dense() ||
      info(tensor.type()).bits < 8 || !is_known(tensor)) {
    return std::nullopt;
  }
  if (tensor.count() > 1) {
    Found found = counting_in(tensor);
    if (!found) found = repeated_in(tensor);
    return found ? found : triangle_in(tensor);
  }
  double value = 0;
  convert(ElementType::f64, &value, tensor.type(), tensor.data(), 1);
  return AffineValue::constant(value);
}

}  // namespace lathe
