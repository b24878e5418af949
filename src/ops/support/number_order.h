// SPDX-License-Identifier: MIT
#pragma once

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

}  // namespace lathe
