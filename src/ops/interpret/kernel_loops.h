// SPDX-License-Identifier: MIT
// The bodies of the kernels. Included once per instruction set, inside whatever selects it, so
// everything here has internal linkage; the including file includes the headers.
#pragma once

namespace lathe::interpret {
namespace {

using semantics::Boolean;

template <class T, bool kConstant>
[[gnu::always_inline]] inline T element(const T* values, T constant, int64_t i) {
  if constexpr (kConstant) return constant;
  return values[i];
}

template <class F, class R, class T, bool A>
void loop1(std::byte* out, const std::byte* a, const std::byte*, const std::byte*, int64_t count) {
  auto* __restrict result = reinterpret_cast<R*>(out);
  const auto* x = reinterpret_cast<const T*>(a);
  const T x0 = *x;
  const int64_t blocks = count / kLanes;
  for (int64_t i = 0; i < blocks * kLanes; ++i) result[i] = F{}(element<T, A>(x, x0, i));
}

template <class F, class R, class T, bool A, bool B>
void loop2(std::byte* out, const std::byte* a, const std::byte* b, const std::byte*,
           int64_t count) {
  auto* __restrict result = reinterpret_cast<R*>(out);
  const auto* x = reinterpret_cast<const T*>(a);
  const auto* y = reinterpret_cast<const T*>(b);
  const T x0 = *x, y0 = *y;
  const int64_t blocks = count / kLanes;
  for (int64_t i = 0; i < blocks * kLanes; ++i) {
    result[i] = F{}(element<T, A>(x, x0, i), element<T, B>(y, y0, i));
  }
}

// The first operand of a select is a boolean.
template <class F, class R, class S, class T, bool A, bool B, bool C>
void loop3(std::byte* out, const std::byte* a, const std::byte* b, const std::byte* c,
           int64_t count) {
  auto* __restrict result = reinterpret_cast<R*>(out);
  const auto* x = reinterpret_cast<const S*>(a);
  const auto* y = reinterpret_cast<const T*>(b);
  const auto* z = reinterpret_cast<const T*>(c);
  const S x0 = *x;
  const T y0 = *y, z0 = *z;
  const int64_t blocks = count / kLanes;
  for (int64_t i = 0; i < blocks * kLanes; ++i) {
    result[i] = F{}(element<S, A>(x, x0, i), element<T, B>(y, y0, i), element<T, C>(z, z0, i));
  }
}

// Operands that are all constants have been folded.
template <class F, class R, class T>
Kernel pick1() {
  return loop1<F, R, T, false>;
}
template <class F, class R, class T>
Kernel pick2(unsigned constants) {
  switch (constants) {
    case 0:
      return loop2<F, R, T, false, false>;
    case 1:
      return loop2<F, R, T, true, false>;
    default:
      return loop2<F, R, T, false, true>;
  }
}
template <class F, class T>
Kernel pick3(unsigned constants) {
  switch (constants) {
    case 0:
      return loop3<F, T, T, T, false, false, false>;
    case 1:
      return loop3<F, T, T, T, true, false, false>;
    case 2:
      return loop3<F, T, T, T, false, true, false>;
    case 3:
      return loop3<F, T, T, T, true, true, false>;
    case 4:
      return loop3<F, T, T, T, false, false, true>;
    case 5:
      return loop3<F, T, T, T, true, false, true>;
    default:
      return loop3<F, T, T, T, false, true, true>;
  }
}

// Moves bits, so that one kernel serves all types of a size.
template <class T>
struct Select {
  [[gnu::always_inline]] T operator()(Boolean c, T a, T b) const { return c != 0 ? a : b; }
};
template <class T>
Kernel pick_select(unsigned constants) {
  switch (constants) {
    case 0:
      return loop3<Select<T>, T, Boolean, T, false, false, false>;
    case 2:
      return loop3<Select<T>, T, Boolean, T, false, true, false>;
    case 4:
      return loop3<Select<T>, T, Boolean, T, false, false, true>;
    default:
      return loop3<Select<T>, T, Boolean, T, false, true, true>;
  }
}

template <class T>
struct Same {
  [[gnu::always_inline]] T operator()(T a) const { return a; }
};
template <class To, class From>
struct Convert {
  [[gnu::always_inline]] To operator()(From a) const { return semantics::convert<To>(a); }
};

// The unsigned integer as wide as T.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 1, uint8_t,
                                std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

template <class T>
Kernel find_for(const KernelKey& key) {
  if (key.op == ExprOp::select) return pick_select<Bits<T>>(key.constants);
  if (key.op == ExprOp::constant) return loop1<Same<Bits<T>>, Bits<T>, Bits<T>, true>;
  if (key.op == ExprOp::convert) {
    return semantics::visit_type(
        key.out, []<class To>() -> Kernel { return pick1<Convert<To, T>, To, T>(); });
  }
  Kernel kernel = nullptr;
  semantics::visit_function<T>(key.op, [&]<class F>(F) {
    if constexpr (std::is_invocable_v<F, T>) {
      kernel = pick1<F, std::invoke_result_t<F, T>, T>();
    } else if constexpr (std::is_invocable_v<F, T, T>) {
      kernel = pick2<F, std::invoke_result_t<F, T, T>, T>(key.constants);
    } else {
      kernel = pick3<F, T>(key.constants);
    }
  });
  return kernel;
}

Kernel find(const KernelKey& key) {
  return semantics::visit_type(key.in, [&]<class T>() { return find_for<T>(key); });
}

}  // namespace
}  // namespace lathe::interpret
