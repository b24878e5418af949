// SPDX-License-Identifier: MIT
#include "tests/support/compare.h"

#include <fmt/ranges.h>

#include <cmath>
#include <vector>

#include "tensor/convert.h"

namespace lathe::test {
namespace {

// f32: expected values have at least seven digits, functions have an error of a few ulp, and
// accumulation stays within the same bound. 16-bit floats compute in f32 and round once: one ulp
// covers a tie rounded the other way. Other types are exact.
double default_tolerance(ElementType type) {
  switch (type) {
    case ElementType::f32:
    case ElementType::c64:
      return 2e-6;
    case ElementType::f64:
    case ElementType::c128:
      return 1e-12;
    case ElementType::f16:
      return 0x1p-10;
    case ElementType::bf16:
      return 0x1p-7;
    default:
      return 0;
  }
}

// Elements as doubles, two per complex element.
std::vector<double> reals(const Tensor& tensor) {
  const bool complex = info(tensor.type()).cls == ElementClass::complex;
  const ElementType part = tensor.type() == ElementType::c64    ? ElementType::f32
                           : tensor.type() == ElementType::c128 ? ElementType::f64
                                                                : tensor.type();
  const int64_t count = tensor.count() * (complex ? 2 : 1);
  std::vector<double> values(static_cast<size_t>(count));
  convert(ElementType::f64, values.data(), part, tensor.dense().data(), count);
  return values;
}

bool near(double a, double b, double tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
}

std::string tensor_difference(const Tensor& actual, const Tensor& expected,
                              std::optional<double> tolerance) {
  if (actual.type() != expected.type() || actual.dims() != expected.dims()) {
    return fmt::format("is {}, expected {}", to_string(actual.type(), actual.dims()),
                       to_string(expected.type(), expected.dims()));
  }
  if (identical(actual, expected)) return "";
  const double limit = tolerance.value_or(default_tolerance(expected.type()));
  const bool floats =
      is_floating(expected.type()) || info(expected.type()).cls == ElementClass::complex;
  bool same = floats;
  if (floats) {
    const std::vector<double> a = reals(actual);
    const std::vector<double> b = reals(expected);
    for (size_t i = 0; i < a.size(); ++i) same = same && near(a[i], b[i], limit);
  } else if (tolerance.value_or(0) > 0 && is_integer(expected.type())) {
    const std::vector<double> a = reals(actual);
    const std::vector<double> b = reals(expected);
    same = true;
    for (size_t i = 0; i < a.size(); ++i) same = same && std::abs(a[i] - b[i]) <= *tolerance;
  }
  if (same) return "";
  return fmt::format("is {}\n  expected {}", to_text(Box{actual}), to_text(Box{expected}));
}

const BoxMap& map_of(const Box& box) { return *std::get<std::shared_ptr<const BoxMap>>(box.value); }

}  // namespace

std::string difference(const Box& actual, const Box& expected, std::optional<double> tolerance) {
  if (actual.value.index() != expected.value.index()) {
    return fmt::format("is {}\n  expected {}", to_text(actual), to_text(expected));
  }
  if (expected.is_tensor()) return tensor_difference(actual.tensor(), expected.tensor(), tolerance);
  if (expected.empty()) return "";
  if (!expected.is_sequence()) {
    const std::string keys = tensor_difference(map_of(actual).keys, map_of(expected).keys, 0);
    if (!keys.empty()) return "has other keys: " + keys;
  }
  const auto& a = actual.is_sequence() ? actual.sequence() : map_of(actual).values;
  const auto& b = expected.is_sequence() ? expected.sequence() : map_of(expected).values;
  if (a.size() != b.size()) return fmt::format("has {} items, expected {}", a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    const std::string found = difference(a[i], b[i], tolerance);
    if (!found.empty()) return fmt::format("item {} {}", i, found);
  }
  return "";
}

std::string to_text(const Box& box) {
  if (box.is_sequence()) {
    std::vector<std::string> items;
    for (const Box& item : box.sequence()) items.push_back(to_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  if (box.empty()) return "nothing";
  if (!box.is_tensor()) {
    std::vector<Box> items{Box{map_of(box).keys}};
    items.insert(items.end(), map_of(box).values.begin(), map_of(box).values.end());
    return "map" + to_text(Box{std::make_shared<const std::vector<Box>>(std::move(items))});
  }
  const Tensor tensor = box.tensor().dense();
  std::string values;
  if (tensor.type() == ElementType::string) {
    values = fmt::format("{}", fmt::join(tensor.elements<std::string>(), "\", \""));
    values = "\"" + values + "\"";
  } else if (tensor.type() == ElementType::i64) {
    values = fmt::format("{}", fmt::join(tensor.elements<int64_t>(), ", "));
  } else {
    values = fmt::format("{}", fmt::join(reals(tensor), ", "));
  }
  return fmt::format("{} {{{}}}", to_string(tensor.type(), tensor.dims()), values);
}

}  // namespace lathe::test
