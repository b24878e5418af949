// SPDX-License-Identifier: MIT
// Whether our declaration of a function passes arguments as the vendor's does.
#pragma once

#include <type_traits>

namespace lathe::gpu {

// Types of one size and one class of registers; addresses of a device are pointers here.
template <class Ours, class Theirs>
constexpr bool passes_alike() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> == std::is_void_v<Theirs>;
  } else {
    constexpr bool both_scalar = std::is_scalar_v<Ours> && std::is_scalar_v<Theirs>;
    return both_scalar && sizeof(Ours) == sizeof(Theirs) &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs>;
  }
}

template <class Ours, class Theirs>
struct Calls;
template <class R, class... A, class S, class... B>
struct Calls<R(A...), S(B...)> {
  static constexpr bool alike() {
    if constexpr (sizeof...(A) == sizeof...(B)) {
      return passes_alike<R, S>() && (passes_alike<A, B>() && ...);
    } else {
      return false;
    }
  }
};

template <class Ours, class Theirs>
constexpr bool calls_alike(Theirs* /*vendor*/) {
  return Calls<Ours, Theirs>::alike();
}

}  // namespace lathe::gpu
