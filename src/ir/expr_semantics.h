// SPDX-License-Identifier: MIT
// C++ semantics of each expression op, shared by constant folding and the interpreter. Everything
// is always inlined and uses compiler builtins: translation units for different processors include
// this header and must not share a function.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "ir/expr.h"

namespace lathe::semantics {

// A byte that is 0 or 1.
using Boolean = uint8_t;

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T>;
template <class T>
using Unsigned = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T>
[[gnu::always_inline]] inline T wrap_add(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}
template <class T>
[[gnu::always_inline]] inline T wrap_sub(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b));
}
template <class T>
[[gnu::always_inline]] inline T wrap_mul(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
}
template <class T>
[[gnu::always_inline]] inline T divide(T a, T b) {
  if (b == 0) return 0;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return wrap_sub(T{0}, a);
  }
  return static_cast<T>(a / b);
}
template <class T>
[[gnu::always_inline]] inline bool shifts_all(T amount) {
  return static_cast<Unsigned<T>>(amount) >= sizeof(T) * 8;
}
template <class T>
[[gnu::always_inline]] inline T shift_left(T a, T amount) {
  const Unsigned<T> n = static_cast<Unsigned<T>>(amount) & (sizeof(T) * 8 - 1);
  return shifts_all(amount) ? T{0} : static_cast<T>(static_cast<Unsigned<T>>(a) << n);
}
template <class T>
[[gnu::always_inline]] inline T shift_right(T a, T amount) {
  const T most = static_cast<T>(sizeof(T) * 8 - 1);
  const T emptied = std::is_signed_v<T> ? static_cast<T>(a >> most) : T{0};
  return shifts_all(amount) ? emptied : static_cast<T>(a >> (amount & most));
}

template <class T>
[[gnu::always_inline]] inline T fused(T a, T b, T c) {
  if constexpr (sizeof(T) == 4) return __builtin_fmaf(a, b, c);
  return static_cast<T>(__builtin_fma(a, b, c));
}
template <class T>
[[gnu::always_inline]] inline T magnitude(T a) {
  if constexpr (std::is_same_v<T, float>) return __builtin_fabsf(a);
  if constexpr (std::is_same_v<T, double>) return __builtin_fabs(a);
  if constexpr (std::is_signed_v<T>) return a < 0 ? wrap_sub(T{0}, a) : a;
  return a;
}
template <class T>
[[gnu::always_inline]] inline T floor_of(T a) {
  if constexpr (sizeof(T) == 4) return __builtin_floorf(a);
  return static_cast<T>(__builtin_floor(a));
}
template <class T>
[[gnu::always_inline]] inline T ceil_of(T a) {
  if constexpr (sizeof(T) == 4) return __builtin_ceilf(a);
  return static_cast<T>(__builtin_ceil(a));
}
template <class T>
[[gnu::always_inline]] inline T trunc_of(T a) {
  if constexpr (sizeof(T) == 4) return __builtin_truncf(a);
  return static_cast<T>(__builtin_trunc(a));
}
template <class T>
[[gnu::always_inline]] inline T round_of(T a) {  // the rounding mode is always nearest even
  if constexpr (sizeof(T) == 4) return __builtin_nearbyintf(a);
  return static_cast<T>(__builtin_nearbyint(a));
}
template <class T>
[[gnu::always_inline]] inline T sqrt_of(T a) {
#if __has_builtin(__builtin_elementwise_sqrt)  // does not set errno, so that loops vectorise
  return __builtin_elementwise_sqrt(a);
#else
  if constexpr (sizeof(T) == 4) return __builtin_sqrtf(a);
  return static_cast<T>(__builtin_sqrt(a));
#endif
}

template <class To, class From>
[[gnu::always_inline]] inline To convert(From a) {
  if constexpr (std::is_same_v<To, Boolean>) {
    return a != 0 ? 1 : 0;
  } else if constexpr (kIsFloat<From> && !kIsFloat<To>) {
    // -2^(n-1) and 0 are exact in every float; 2^n is the first value out of range.
    constexpr From kFirst = static_cast<From>(std::numeric_limits<To>::min());
    constexpr From kBeyond = static_cast<From>(std::numeric_limits<To>::max() / 2 + 1) * 2;
    if (a != a) return 0;
    if (a >= kBeyond) return std::numeric_limits<To>::max();
    if (a <= kFirst) return std::numeric_limits<To>::min();
    return static_cast<To>(a);
  } else {
    return static_cast<To>(a);
  }
}

template <class To, class From>
[[gnu::always_inline]] inline To bitcast(From a) {
  return __builtin_bit_cast(To, a);
}

// Calls `visit` with the function of `op` for operands of type T (Boolean for booleans) and returns
// true; false if the op is undefined for T. Excludes select, convert and bitcast.
template <class T, class Visitor>
bool visit_function(ExprOp op, Visitor&& visit) {
  constexpr bool kFloat = kIsFloat<T>;
  constexpr bool kBool = std::is_same_v<T, Boolean>;
  switch (op) {
    case ExprOp::eq:
      visit([](T a, T b) -> Boolean { return a == b; });
      return true;
    case ExprOp::ne:
      visit([](T a, T b) -> Boolean { return a != b; });
      return true;
    case ExprOp::lt:
      visit([](T a, T b) -> Boolean { return a < b; });
      return true;
    case ExprOp::le:
      visit([](T a, T b) -> Boolean { return a <= b; });
      return true;
    case ExprOp::gt:
      visit([](T a, T b) -> Boolean { return a > b; });
      return true;
    case ExprOp::ge:
      visit([](T a, T b) -> Boolean { return a >= b; });
      return true;
    case ExprOp::min:
      visit([](T a, T b) -> T { return a <= b || a != a ? a : b; });
      return true;
    case ExprOp::max:
      visit([](T a, T b) -> T { return a >= b || a != a ? a : b; });
      return true;
    default:
      break;
  }
  if constexpr (kFloat) {
    switch (op) {
      case ExprOp::add:
        visit([](T a, T b) -> T { return a + b; });
        return true;
      case ExprOp::sub:
        visit([](T a, T b) -> T { return a - b; });
        return true;
      case ExprOp::mul:
        visit([](T a, T b) -> T { return a * b; });
        return true;
      case ExprOp::div:
        visit([](T a, T b) -> T { return a / b; });
        return true;
      case ExprOp::fma:
        visit([](T a, T b, T c) -> T { return fused(a, b, c); });
        return true;
      case ExprOp::neg:
        visit([](T a) -> T { return -a; });
        return true;
      case ExprOp::abs:
        visit([](T a) -> T { return magnitude(a); });
        return true;
      case ExprOp::floor:
        visit([](T a) -> T { return floor_of(a); });
        return true;
      case ExprOp::ceil:
        visit([](T a) -> T { return ceil_of(a); });
        return true;
      case ExprOp::trunc:
        visit([](T a) -> T { return trunc_of(a); });
        return true;
      case ExprOp::round_even:
        visit([](T a) -> T { return round_of(a); });
        return true;
      case ExprOp::sqrt:
        visit([](T a) -> T { return sqrt_of(a); });
        return true;
      case ExprOp::is_nan:
        visit([](T a) -> Boolean { return a != a; });
        return true;
      default:
        return false;
    }
  } else if constexpr (kBool) {
    switch (op) {
      case ExprOp::bit_and:
        visit([](T a, T b) -> T { return a & b; });
        return true;
      case ExprOp::bit_or:
        visit([](T a, T b) -> T { return a | b; });
        return true;
      case ExprOp::bit_xor:
        visit([](T a, T b) -> T { return a ^ b; });
        return true;
      case ExprOp::bit_not:
        visit([](T a) -> T { return a ^ 1; });
        return true;
      default:
        return false;
    }
  } else {
    switch (op) {
      case ExprOp::add:
        visit([](T a, T b) -> T { return wrap_add(a, b); });
        return true;
      case ExprOp::sub:
        visit([](T a, T b) -> T { return wrap_sub(a, b); });
        return true;
      case ExprOp::mul:
        visit([](T a, T b) -> T { return wrap_mul(a, b); });
        return true;
      case ExprOp::div:
        visit([](T a, T b) -> T { return divide(a, b); });
        return true;
      case ExprOp::neg:
        visit([](T a) -> T { return wrap_sub(T{0}, a); });
        return true;
      case ExprOp::abs:
        visit([](T a) -> T { return magnitude(a); });
        return true;
      case ExprOp::bit_and:
        visit([](T a, T b) -> T { return a & b; });
        return true;
      case ExprOp::bit_or:
        visit([](T a, T b) -> T { return a | b; });
        return true;
      case ExprOp::bit_xor:
        visit([](T a, T b) -> T { return a ^ b; });
        return true;
      case ExprOp::bit_not:
        visit([](T a) -> T { return ~a; });
        return true;
      case ExprOp::shift_left:
        visit([](T a, T b) -> T { return shift_left(a, b); });
        return true;
      case ExprOp::shift_right:
        visit([](T a, T b) -> T { return shift_right(a, b); });
        return true;
      default:
        return false;
    }
  }
}

// Calls `visit.template operator()<T>()` with the C++ type that holds values of `type`.
template <class Visitor>
auto visit_type(ExprType type, Visitor&& visit) {
  switch (type) {
    case ExprType::f32:
      return visit.template operator()<float>();
    case ExprType::f64:
      return visit.template operator()<double>();
    case ExprType::i32:
      return visit.template operator()<int32_t>();
    case ExprType::i64:
      return visit.template operator()<int64_t>();
    case ExprType::u64:
      return visit.template operator()<uint64_t>();
    case ExprType::boolean:
      break;
  }
  return visit.template operator()<Boolean>();
}

}  // namespace lathe::semantics
