// SPDX-License-Identifier: MIT
#include "passes/analysis/affine_bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tensor/convert.h"

namespace lathe {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kExactDouble = 9007199254740992.0;  // 2^53

// The integers that the type holds exactly; empty for types without numbers.
Range exact_integers(ElementType type) {
  const auto both = [](int bits) { return Range{-(int64_t{1} << bits), int64_t{1} << bits}; };
  if (is_integer(type)) {
    // A difference of two stays within 64 bits.
    const int bits = std::min(info(type).bits, 62);
    if (info(type).cls == ElementClass::unsigned_int) return {0, (int64_t{1} << bits) - 1};
    return {-(int64_t{1} << (bits - 1)), (int64_t{1} << (bits - 1)) - 1};
  }
  switch (type) {
    case ElementType::f64:
      return both(53);
    case ElementType::f32:
      return both(24);
    case ElementType::f16:
      return both(11);
    case ElementType::bf16:
      return both(8);
    default:
      return {0, -1};
  }
}

Range range_of(const Dim& dim, int64_t longest) {
  return dim.range_under([longest](const Symbol& symbol) {
    return Range{std::min(symbol.range.min, longest), std::min(symbol.range.max, longest)};
  });
}

}  // namespace

Bounds bounds_of(const Linear& linear, std::span<const Dim> dims) {
  Bounds bounds{linear.offset, linear.offset};
  for (size_t axis = 0; axis < linear.steps.size(); ++axis) {
    const Dim reach = Dim(linear.steps[axis]) * (dims[axis] - Dim(1));
    Dim& moved = linear.steps[axis] < 0 ? bounds.least : bounds.most;
    moved = moved + reach;
  }
  return bounds;
}

double element_number(ElementType type, double number) {
  if (type == ElementType::boolean) return number == 0 || number == 1 ? number : kNone;
  if (is_integer(type)) {
    const Range range = exact_integers(type);
    const bool exact = std::trunc(number) == number && std::abs(number) < kExactDouble;
    const bool held = exact && number >= static_cast<double>(range.min) &&
                      static_cast<int64_t>(number) <= range.max;
    return held ? number + 0.0 : kNone;  // no -0
  }
  if (!is_floating(type) || is_packed(type)) return kNone;
  std::byte element[sizeof(double)] = {};
  store_double(type, element, 0, number);
  const double rounded = load_double(type, element, 0);
  return rounded == number || info(type).bits > 8 ? rounded : kNone;
}

bool type_holds(const Type& type, const AffineValue& value, int64_t longest) {
  if (!value.linear) {
    return element_number(type.element, value.yes) == value.yes &&
           element_number(type.element, value.no) == value.no;
  }
  if (value.linear->steps.size() > type.dims->size()) return false;
  const Range held = exact_integers(type.element);
  const Bounds bounds = bounds_of(aligned(*value.linear, type.rank()), *type.dims);
  return range_of(bounds.least, longest).min >= held.min &&
         range_of(bounds.most, longest).max <= held.max;
}

bool indices_within(const AffineValue& indices, std::span<const Dim> dims, const Dim& extent) {
  const auto within = [&](const Dim& least, const Dim& most) {
    return less_equal(Dim(0) - extent, least) == Ternary::yes &&
           less_equal(most + Dim(1), extent) == Ternary::yes;
  };
  if (indices.linear) {
    const Bounds bounds = bounds_of(aligned(*indices.linear, static_cast<int>(dims.size())), dims);
    return within(bounds.least, bounds.most);
  }
  return std::ranges::all_of(std::array{indices.yes, indices.no}, [&](double number) {
    if (indices.joins_masks || !(std::abs(number) < kExactDouble)) return false;
    const auto index = static_cast<int64_t>(number);
    return within(index, index);
  });
}

}  // namespace lathe
