// SPDX-License-Identifier: MIT
#include "ops/support/scatter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "ops/evaluation.h"
#include "ops/support/symbolic_movement.h"
#include "ops/support/views.h"

namespace lathe {
namespace {

constexpr std::array<std::string_view, 5> kNames{"none", "add", "mul", "max", "min"};

// Integers wrap around; NaN replaces any number in min and max.
template <class T>
T combined(ScatterReduction reduction, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (reduction == ScatterReduction::add) return a + b;
    if (reduction == ScatterReduction::mul) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  } else {
    const auto x = static_cast<uint64_t>(a);
    const auto y = static_cast<uint64_t>(b);
    if (reduction == ScatterReduction::add) return static_cast<T>(x + y);
    if (reduction == ScatterReduction::mul) return static_cast<T>(x * y);
  }
  return reduction == ScatterReduction::max ? std::max(a, b) : std::min(a, b);
}

}  // namespace

ScatterReduction scatter_reduction(const std::string& name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  check(at != kNames.end(), ErrorKind::invalid_argument, "unknown reduction '{}'{}", escape(name),
        did_you_mean(name, kNames));
  return static_cast<ScatterReduction>(at - kNames.begin());
}

void infer_scatter(Infer& c) {
  const std::string& name = c.text("reduction");
  c.check(std::find(kNames.begin(), kNames.end(), name) != kNames.end(), "unknown reduction '{}'{}",
          escape(name), did_you_mean(name, kNames));
  c.check(name == "none" ||
              (type_bit(c.element(0)) & (kNumeric | kBoolean | kFloat8 | kSmallInts)) != 0,
          "reduction '{}' does not support {}", name, to_string(c.element(0)));
  c.result(c.element(0), c.dims(0));
  if (name == "none") propagate_elements(c, {0, 2});
}

ElementType scatter_type(ElementType type, ScatterReduction reduction) {
  return reduction == ScatterReduction::none ? unpacked_type(type) : arithmetic_type(type);
}

void scatter_into(ScatterReduction reduction, const TensorView& from, const TensorView& to) {
  if (reduction == ScatterReduction::none) return copy_elements(from, to);
  with_number_type(from.type, [&]<class T>(T*) {
    for_each_index(from.extents(), [&](std::span<const int64_t> index) {
      T& target = to.as<T>()[offset_of(to, index)];
      target = combined(reduction, target, from.as<T>()[offset_of(from, index)]);
      // Sum and product of booleans are 'or' and 'and'.
      if (from.type == ElementType::boolean) target = target != 0 ? T{1} : T{0};
    });
  });
}

}  // namespace lathe
