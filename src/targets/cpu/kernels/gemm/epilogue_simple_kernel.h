// SPDX-License-Identifier: MIT
// SimpleEpilogue on vectors: kRows rows of one vector of columns.
#pragma once

#include "targets/cpu/kernels/elementwise/activation_kernel.h"
#include "targets/cpu/kernels/gemm/epilogue_simple.h"

namespace lathe::cpu {
namespace {

inline F32 load_residual(const SimpleEpilogue& e, int64_t at, Mask mask) {
  switch (e.residual_type) {
    case ElementType::bf16:
      return load_f32(static_cast<const Bf16*>(e.residual) + at, mask);
    case ElementType::i8:
      return load_f32(static_cast<const int8_t*>(e.residual) + at, mask);
    case ElementType::u8:
      return load_f32(static_cast<const uint8_t*>(e.residual) + at, mask);
    default:
      return load(static_cast<const float*>(e.residual) + at, mask);
  }
}

// Rounds values, multiplies them, and adds the residual, whose vector i is residual(i).
template <int kCount, class Residual>
inline __attribute__((always_inline)) void requantise(const Requantisation& r, F32* x,
                                                      Residual&& residual) {
  const F32 low = set1(r.low), high = set1(r.high), factor = set1(r.factor);
  const F32 scale = set1(r.residual_scale), zero = set1(r.residual_zero);
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i) {
    x[i] = round_even(min(max(x[i], low), high)) * factor + (residual(i) - zero) * scale;
  }
}

inline bool is_relu(const SimpleEpilogue& e) {
  return e.has_activation && e.activation == Activation::relu;
}
// u8 saturation implements ReLU if the zero point is 0. i8 saturation does not: NaN becomes -128.
inline bool is_relu_a_bound(const SimpleEpilogue& e) {
  return is_relu(e) && e.out_zero == 0 && e.out == ElementType::u8;
}
inline float int8_low(const SimpleEpilogue& e) {
  return (e.out == ElementType::i8 ? -128.0F : 0.0F) - e.out_zero;
}

// Dispatches on the output type once for all rows. kWhole: all rows and whole vectors.
template <bool kWhole, int kRows>
inline void store_simple(const SimpleEpilogue& e, const F32 (&x)[kRows], int rows, Mask mask,
                         char* out, int64_t out_stride) {
  const auto each = [&](auto store_one) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      if (kWhole || r < rows) store_one(out + r * out_stride, x[r]);
    }
  };
  // Saturates before adding the zero point: the bounds are integers, so rounding keeps them.
  const bool is_signed = e.out == ElementType::i8;
  const F32 low = set1(int8_low(e));
  const F32 high = set1((is_signed ? 127.0F : 255.0F) - e.out_zero);
  const I32 zero = set1(static_cast<int32_t>(e.out_zero));
  const auto to_int8 = [=](F32 v) { return to_i32(min(max(v, low), high)) + zero; };
  switch (e.out) {
    case ElementType::bf16:
      return each([=](char* to, F32 v) {
        auto* p = reinterpret_cast<Bf16*>(to);
        kWhole ? store_f32(p, v) : store_f32(p, v, mask);
      });
    case ElementType::i8:
    case ElementType::u8:
      return each([=](char* to, F32 v) {
        auto* p = reinterpret_cast<uint8_t*>(to);
        kWhole ? store_i32(p, to_int8(v)) : store_i32(p, to_int8(v), mask);
      });
    default:
      return each([=](char* to, F32 v) {
        auto* p = reinterpret_cast<float*>(to);
        kWhole ? store(p, v) : store(p, v, mask);
      });
  }
}

// Four vectors at a time hide the latencies and leave registers for the constants.
template <int kFirst, int kCount>
inline __attribute__((always_inline)) void silu_groups(float a, F32 (&x)[kCount]) {
  constexpr int kSome = kCount - kFirst < 4 ? kCount - kFirst : 4;
  if constexpr (kSome > 0) {
    F32 y[kSome];
#pragma GCC unroll 4
    for (int i = 0; i < kSome; ++i) y[i] = x[kFirst + i];
    if (a != 1) {
#pragma GCC unroll 4
      for (int i = 0; i < kSome; ++i) y[i] = y[i] * set1(a);
    }
    sigmoid_each(y);
#pragma GCC unroll 4
    for (int i = 0; i < kSome; ++i) x[kFirst + i] = x[kFirst + i] * y[i];
    __asm__ volatile("" ::: "memory");
    silu_groups<kFirst + kSome>(a, x);
  }
}

// Applies the activation to values in registers.
template <int kCount>
inline __attribute__((always_inline)) void activate_in_registers(const SimpleEpilogue& e,
                                                                 F32 (&x)[kCount]) {
  if (e.activation == Activation::hard_swish) {
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) x[i] = hard_swish(x[i]);
  } else if (e.activation == Activation::silu) {
    silu_groups<0>(e.a, x);
  } else {
    activate(e.activation, e.a, e.b, x);
  }
}

// Accumulators are f32, or integers that include column_compensation. Works on a copy, which stays
// in registers.
template <int kRows>
inline void finish_simple(const SimpleEpilogue& e, const F32 (&sums)[kRows], int rows, int64_t row,
                          int64_t column, Mask mask, bool whole, char* out, int64_t out_stride) {
  F32 x[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) x[r] = sums[r];
  if (e.scale != nullptr) {
    const F32 scale = whole ? load(e.scale + column) : load(e.scale + column, mask);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = x[r] * scale;
  }
  if (e.bias != nullptr) {
    const F32 bias = whole ? load(e.bias + column) : load(e.bias + column, mask);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) x[r] = x[r] + bias;
  }
  if (e.requantises) {
    requantise<kRows>(e.requantisation, x, [&](int r) {
      return r < rows ? load_residual(e, (row + r) * e.residual_stride + column, mask) : zero_f32();
    });
  } else if (e.residual != nullptr) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      if (r < rows) x[r] = x[r] + load_residual(e, (row + r) * e.residual_stride + column, mask);
    }
  }
  if (is_relu(e)) {
    if (!is_relu_a_bound(e)) {
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) x[r] = relu(x[r]);
    }
  } else if (e.has_activation) {
    activate_in_registers(e, x);
  }
  if (whole && rows == kRows) {
    store_simple<true>(e, x, rows, mask, out, out_stride);
  } else {
    store_simple<false>(e, x, rows, mask, out, out_stride);
  }
}

// Applies the epilogue to accumulators in memory, at most one vector of columns.
template <int kRows, bool kIntegers, bool kWhole>
inline void finish_simple_rows(const SimpleEpilogue& e, const EpilogueTile& tile, int64_t c) {
  const int64_t size = e.out == ElementType::f32 ? 4 : e.out == ElementType::bf16 ? 2 : 1;
  const Mask mask = mask_first(kWhole ? kLanes : tile.columns - c);
  const int64_t column = tile.column + c;
  I32 add = zero_i32();
  if (kIntegers && e.column_compensation != nullptr)
    add = load(e.column_compensation + column, mask);
  for (int64_t row = 0; row < tile.rows; row += kRows) {
    const int rows = static_cast<int>(tile.rows - row < kRows ? tile.rows - row : kRows);
    F32 x[kRows];
    const int64_t first = row * tile.sums_stride + c;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const int64_t at = first + (r < rows ? r : 0) * tile.sums_stride;
      if constexpr (kIntegers) {
        const int32_t* p = static_cast<const int32_t*>(tile.sums) + at;
        x[r] = to_f32((kWhole ? load(p) : load(p, mask)) + add);
      } else {
        const float* p = static_cast<const float*>(tile.sums) + at;
        x[r] = kWhole ? load(p) : load(p, mask);
      }
    }
    finish_simple(e, x, rows, tile.row + row, column, mask, kWhole,
                  static_cast<char*>(tile.out) + c * size + row * tile.out_stride, tile.out_stride);
  }
}

// kWideRows rows of two whole vectors, stored together.
constexpr int kWideRows = 4;
using WideRows = F32[2 * kWideRows];

template <class F>
inline __attribute__((always_inline)) void each_wide(F&& f) {
#pragma GCC unroll 8
  for (int i = 0; i < 2 * kWideRows; ++i) f(i, i / 2, i % 2);
}

template <class T>
inline __attribute__((always_inline)) void add_residual(const SimpleEpilogue& e, int64_t at,
                                                        int rows, WideRows& x) {
  const T* p = static_cast<const T*>(e.residual) + at;
  each_wide([&](int i, int r, int v) {
    if (r < rows) x[i] = x[i] + load_f32(p + r * e.residual_stride + v * kLanes);
  });
}

// Stores rows with values that store_two does not round, one vector at a time.
template <class T>
__attribute__((noinline)) void store_slowly(const WideRows& x, int rows, char* out,
                                            int64_t stride) {
  for (int i = 0; i < 2 * rows; ++i) {
    store_f32(reinterpret_cast<T*>(out + i / 2 * stride) + i % 2 * kLanes, x[i]);
  }
}

// Stores two vectors of each row.
template <class T>
struct StoreFloats {
  explicit StoreFloats(const SimpleEpilogue&) {}
  inline __attribute__((always_inline)) void operator()(const WideRows& x, int rows, char* out,
                                                        int64_t stride) const {
    unsigned special = 0;
#pragma GCC unroll 4
    for (int r = 0; r < kWideRows; ++r) {
      if (r >= rows) continue;
      store_two(reinterpret_cast<T*>(out + r * stride), x[2 * r], x[2 * r + 1]);
      if (sizeof(T) == 2) special |= is_special(x[2 * r], x[2 * r + 1]);
    }
    if (__builtin_expect(special != 0, 0)) {
      WideRows copy;
      each_wide([&](int i, int, int) { copy[i] = x[i]; });
      store_slowly<T>(copy, rows, out, stride);
    }
  }
};
template <bool kSigned, bool kZero>
struct StoreInt8 {
  explicit StoreInt8(const SimpleEpilogue& e)
      : high(set1((kSigned ? 127.0F : 255.0F) - e.out_zero)), zero(static_cast<int>(e.out_zero)) {}
  inline __attribute__((always_inline)) void operator()(const WideRows& x, int rows, char* out,
                                                        int64_t stride) const {
    alignas(64) char discarded[2 * kLanes];
#pragma GCC unroll 2
    for (int r = 0; r < kWideRows; r += 2) {
      if (r >= rows) return;
      char* to = out + r * stride;
      const F32 two[4] = {min(high, x[2 * r]), min(high, x[2 * r + 1]), min(high, x[2 * r + 2]),
                          min(high, x[2 * r + 3])};
      store_int8<kSigned, kZero>(to, r + 1 < rows ? to + stride : discarded, two, zero);
    }
  }
  F32 high;
  int zero;
};

// Per-column values shared by the rows of a tile.
template <bool kIntegers, class Store>
struct WideColumns {
  WideColumns(const SimpleEpilogue& epilogue, const EpilogueTile& part, int64_t first)
      : e(epilogue), tile(part), c(first), column(part.column + first), store_rows(epilogue) {
    const auto vector = [&](const float* p, int v) {
      return p == nullptr ? zero_f32() : load(p + column + v * kLanes);
    };
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) {
      scale[v] = vector(e.scale, v);
      bias[v] = vector(e.bias, v);
    }
    // u8 saturation at 0 already implements ReLU if the zero point is 0.
    const bool cuts = e.out == ElementType::u8 && e.out_zero == 0;
    has_relu = is_relu(e) && !cuts;
    has_other = e.has_activation && !is_relu(e);
  }

  // Applies the epilogue to kWideRows rows from `row`; the first `rows` are stored.
  inline __attribute__((always_inline)) void finish(int64_t row, int rows, char* out) const {
    WideRows x;
    const int32_t* correction =
        e.column_compensation == nullptr ? nullptr : e.column_compensation + column;
    each_wide([&](int i, int r, int v) {
      const int64_t from = (row + (r < rows ? r : 0)) * tile.sums_stride + c + v * kLanes;
      if constexpr (kIntegers) {
        const I32 sum = load(static_cast<const int32_t*>(tile.sums) + from);
        x[i] = to_f32(correction == nullptr ? sum : sum + load(correction + v * kLanes));
      } else {
        x[i] = load(static_cast<const float*>(tile.sums) + from);
      }
    });
    if (e.scale != nullptr) each_wide([&](int i, int, int v) { x[i] = x[i] * scale[v]; });
    if (e.bias != nullptr) each_wide([&](int i, int, int v) { x[i] = x[i] + bias[v]; });
    if (e.requantises) {
      const int64_t at = (tile.row + row) * e.residual_stride + column;
      requantise<2 * kWideRows>(e.requantisation, x, [&](int i) {
        const int64_t from = at + (i / 2 < rows ? i / 2 : 0) * e.residual_stride + i % 2 * kLanes;
        return e.residual_type == ElementType::u8
                   ? load_f32(static_cast<const uint8_t*>(e.residual) + from)
                   : load_f32(static_cast<const int8_t*>(e.residual) + from);
      });
    } else if (e.residual != nullptr) {
      const int64_t at = (tile.row + row) * e.residual_stride + column;
      if (e.residual_type == ElementType::bf16) {
        add_residual<Bf16>(e, at, rows, x);
      } else if (e.residual_type == ElementType::u8) {
        add_residual<uint8_t>(e, at, rows, x);
      } else if (e.residual_type == ElementType::i8) {
        add_residual<int8_t>(e, at, rows, x);
      } else {
        add_residual<float>(e, at, rows, x);
      }
    }
    if (has_relu) each_wide([&](int i, int, int) { x[i] = relu(x[i]); });
    if (has_other) activate_in_registers(e, x);
    store_rows(x, rows, out, tile.out_stride);
  }

  const SimpleEpilogue& e;
  const EpilogueTile& tile;
  int64_t c, column;
  Store store_rows;
  F32 scale[2], bias[2];
  bool has_relu, has_other;
};

// finish_simple_rows for two whole vectors of columns.
template <bool kIntegers, class Store>
void finish_wide_rows(const SimpleEpilogue& e, const EpilogueTile& tile, int64_t c, char* out) {
  const WideColumns<kIntegers, Store> columns(e, tile, c);
  int64_t row = 0;
  for (; row + kWideRows <= tile.rows; row += kWideRows, out += kWideRows * tile.out_stride) {
    columns.finish(row, kWideRows, out);
  }
  if (row < tile.rows) columns.finish(row, static_cast<int>(tile.rows - row), out);
}

template <bool kIntegers>
inline void finish_wide(const SimpleEpilogue& e, const EpilogueTile& tile, int64_t c) {
  char* out = static_cast<char*>(tile.out);
  const bool no_zero = e.out_zero == 0;
  switch (e.out) {
    case ElementType::bf16:
      return finish_wide_rows<kIntegers, StoreFloats<Bf16>>(e, tile, c, out + 2 * c);
    case ElementType::i8:
      return no_zero ? finish_wide_rows<kIntegers, StoreInt8<true, true>>(e, tile, c, out + c)
                     : finish_wide_rows<kIntegers, StoreInt8<true, false>>(e, tile, c, out + c);
    case ElementType::u8:
      return no_zero ? finish_wide_rows<kIntegers, StoreInt8<false, true>>(e, tile, c, out + c)
                     : finish_wide_rows<kIntegers, StoreInt8<false, false>>(e, tile, c, out + c);
    default:
      return finish_wide_rows<kIntegers, StoreFloats<float>>(e, tile, c, out + 4 * c);
  }
}

// Full or half height of the microkernels' tiles.
constexpr int kFinishRows = kRegisters == 32 ? 7 : 6;

inline void finish_simple_tile(const SimpleEpilogue& e, const EpilogueTile& tile) {
  int64_t c = 0;
  for (; tile.columns - c >= 2 * kLanes; c += 2 * kLanes) {
    tile.integer_sums ? finish_wide<true>(e, tile, c) : finish_wide<false>(e, tile, c);
  }
  for (; c < tile.columns; c += kLanes) {
    const bool whole = tile.columns - c >= kLanes;
    if (tile.integer_sums) {
      whole ? finish_simple_rows<kFinishRows, true, true>(e, tile, c)
            : finish_simple_rows<kFinishRows, true, false>(e, tile, c);
    } else {
      whole ? finish_simple_rows<kFinishRows, false, true>(e, tile, c)
            : finish_simple_rows<kFinishRows, false, false>(e, tile, c);
    }
  }
}

}  // namespace
}  // namespace lathe::cpu
