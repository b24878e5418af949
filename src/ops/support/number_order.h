// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

namespace lathe {

// A strict order of numbers, as sorting needs: < 0, 0 or > 0. NaN equals itself and exceeds all
// others.
template <class T>
int compare(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (a != a || b != b) return (a != a ? 1 : 0) - (b != b ? 1 : 0);
  }
  return a < b ? -1 : b < a ? 1 : 0;
}

// x cut to [low, high], which T holds, as an integer; NaN becomes `low`.
template <class T>
int64_t cut_to_integer(T x, int64_t low, int64_t high) {
  if (!(x > static_cast<T>(low))) return low;
  return x < static_cast<T>(high) ? static_cast<int64_t>(x) : high;
}

}  // namespace lathe
