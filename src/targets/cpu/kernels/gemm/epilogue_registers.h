// SPDX-License-Identifier: MIT
// The most common simple epilogues on a microkernel's accumulators: kRows rows of one to four
// vectors, in registers. Bit-identical to epilogue_simple_kernel.h.
#pragma once

#include "targets/cpu/kernels/elementwise/activation_kernel.h"
#include "targets/cpu/kernels/gemm/epilogue_simple.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

// True if RegisterTile supports the epilogue. It has few steps, since each tile size instantiates
// it. Integer accumulators become int8 or f32; f32 ones become f32, or bf16 where the operands are
// bf16.
template <bool kIntegers, bool kBf16>
inline bool fits_registers(const SimpleEpilogue& e) {
  const bool is_short = e.activation == Activation::relu || e.activation == Activation::hard_swish;
  if ((e.has_activation && !is_short) || e.requantises) return false;
  switch (e.out) {
    case ElementType::i8:
    case ElementType::u8:
      return kIntegers;
    case ElementType::bf16:
      return kBf16;
    default:
      return e.out == ElementType::f32;
  }
}

// True if a tile's last vector may be partial: AVX-512 masks cost nothing.
#if defined(__AVX512F__)
constexpr bool kCutsVectors = true;
#else
constexpr bool kCutsVectors = false;
#endif

// Stores values that the fast bf16 conversion does not round correctly.
__attribute__((noinline)) inline void store_slowly(const F32* x, int rows, int vectors, Bf16* out,
                                                   int64_t stride, Mask last) {
  for (int i = 0; i < rows * vectors; ++i) {
    Bf16* to = out + i / vectors * stride + i % vectors * kLanes;
    i % vectors == vectors - 1 ? store_f32(to, x[i], last) : store_f32(to, x[i]);
  }
}

template <bool kIntegers, bool kBf16, int kRows, int kVectors>
struct RegisterTile {
  const SimpleEpilogue& e;
  int64_t row, column;  // position in the epilogue's operands
  char* out;
  int64_t out_stride;
  Mask last;  // used lanes of the last vector
  F32 x[kRows][kVectors];

  // Vector v of a row. M is a template parameter so that AVX2 code has no masks.
  template <class T, class M>
  static F32 get(const T* p, int v, M cut) {
    if constexpr (kCutsVectors) {
      if (v == kVectors - 1) return load_f32(p + v * kLanes, cut);
    }
    return load_f32(p + v * kLanes);
  }
  template <class M>
  static void put(float* p, F32 from, int v, M cut) {
    if constexpr (kCutsVectors) {
      if (v == kVectors - 1) return store(p + v * kLanes, from, cut);
    }
    store(p + v * kLanes, from);
  }
  // Vectors v and v + 1.
  template <class M>
  static void put_two(Bf16* p, F32 a, F32 b, int v, M cut) {
    if constexpr (kCutsVectors) {
      if (v == kVectors - 2) return store_two(p + v * kLanes, a, b, cut);
    }
    store_two(p + v * kLanes, a, b);
  }

  template <class F>
  inline __attribute__((always_inline)) void each(F&& f) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) f(x[r][v], r, v);
    }
  }
  // Combines each accumulator with its column's value.
  template <class F>
  inline __attribute__((always_inline)) void each_with(const float* values, F&& f) {
    F32 y[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) y[v] = get(values + column, v, last);
    each([&](F32& to, int, int v) __attribute__((always_inline)) { to = f(to, y[v]); });
  }

  template <class T>
  inline __attribute__((always_inline)) void add_residual() {
    const T* p = static_cast<const T*>(e.residual) + row * e.residual_stride + column;
    each([&](F32& to, int r, int v)
             __attribute__((always_inline)) { to = to + get(p + r * e.residual_stride, v, last); });
  }
  inline __attribute__((always_inline)) void add_residuals() {
    if (e.residual_type == ElementType::f32) return add_residual<float>();
    if constexpr (kIntegers) {
      e.residual_type == ElementType::u8 ? add_residual<uint8_t>() : add_residual<int8_t>();
    } else if constexpr (kBf16) {
      add_residual<Bf16>();
    }
  }

  inline __attribute__((always_inline)) void store_floats() {
    each([&](F32& from, int r, int v) __attribute__((always_inline)) {
      put(reinterpret_cast<float*>(out + r * out_stride), from, v, last);
    });
  }

  inline __attribute__((always_inline)) void store_bf16() {
    unsigned special = 0;
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      Bf16* to = reinterpret_cast<Bf16*>(out + r * out_stride);
#pragma GCC unroll 2
      for (int v = 0; v + 1 < kVectors; v += 2) {
        special |= is_special(x[r][v], x[r][v + 1]);
        put_two(to, x[r][v], x[r][v + 1], v, last);
      }
      if constexpr (kVectors % 2 != 0) {
        special |= is_special(x[r][kVectors - 1]);
        store_one(to + (kVectors - 1) * kLanes, x[r][kVectors - 1], last);
      }
    }
    if (__builtin_expect(special == 0, 1)) return;
    F32 copy[kRows * kVectors];
    each([&](F32& from, int r, int v) { copy[r * kVectors + v] = from; });
    store_slowly(copy, kRows, kVectors, reinterpret_cast<Bf16*>(out), out_stride / 2, last);
  }

  // True if no value reaches 2^31, where conversion to i32 overflows: accumulators are below it,
  // and most scales are well below 1.
  inline __attribute__((always_inline)) bool stays_small() const {
    if (e.scale == nullptr) return false;
    if (e.residual != nullptr && e.residual_type == ElementType::f32) return false;
    bool small = true;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      small = small && all(less_equal(abs(get(e.scale + column, v, last)), set1(0.25F)));
      if (e.bias == nullptr) continue;
      small = small && all(less_equal(abs(get(e.bias + column, v, last)), set1(0x1p29F)));
    }
    return small;
  }

  // Pairs of vectors of a row, packed to int16.
  static constexpr int kPairs = kVectors / 2;
  static constexpr int kInt16Pairs = kRows * kPairs;
  using Int16Pairs = I32[kInt16Pairs == 0 ? 1 : kInt16Pairs];

  template <bool kSigned>
  inline __attribute__((always_inline)) void store_int16_pairs(const Int16Pairs& words) {
    const auto place = [&](int i) __attribute__((always_inline)) {
      return out + i / kPairs * out_stride + i % kPairs * 2 * kLanes;
    };
    const auto mask = [&](int i) __attribute__((always_inline)) {
      return i % kPairs * 2 == kVectors - 2 ? last : mask_first(kLanes);
    };
#pragma GCC unroll 8
    for (int i = 0; i < kInt16Pairs; i += 2) {
      const int next = i + 1 < kInt16Pairs ? i + 1 : i;
      store_int16_as_int8<kSigned>(place(i), place(next), words[i], words[next], mask(i),
                                   mask(next));
    }
  }

  // Stores the last vector as int8, four rows at a time.
  template <bool kSigned>
  inline __attribute__((always_inline)) void store_last_int8(int zero) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; r += 4) {
      const auto words = [&](int first) __attribute__((always_inline)) {
        const int a = first < kRows ? first : kRows - 1, b = first + 1 < kRows ? first + 1 : a;
        return add_to_int16(pack_int16(bits_of(x[a][kVectors - 1]), bits_of(x[b][kVectors - 1])),
                            zero);
      };
      store_int8_rows<kSigned>(out + r * out_stride + (kVectors - 1) * kLanes, out_stride,
                               kRows - r < 4 ? kRows - r : 4, words(r), words(r + 2), last);
    }
  }

  inline __attribute__((always_inline)) void store_int8() {
    const bool is_signed = e.out == ElementType::i8;
    const int zero = static_cast<int>(e.out_zero);
    const F32 high = set1(static_cast<float>((is_signed ? 127 : 255) - zero));
    if constexpr (kVectors % 2 != 0 && !kCutsVectors) {  // odd vector: without masks, stored alone
      const F32 low = set1(static_cast<float>((is_signed ? -128 : 0) - zero));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const I32 y = to_i32(min(max(x[r][kVectors - 1], low), high)) + set1(zero);
        store_i32(reinterpret_cast<uint8_t*>(out + r * out_stride) + (kVectors - 1) * kLanes, y);
      }
    }
    if constexpr (kPairs > 0 || kCutsVectors) {
      // Step by step over all rows: few registers are free beside the accumulators.
      if (!stays_small()) each([=](F32& to, int, int) { to = min(high, to); });
      each([](F32& to, int, int) { to = from_bits(to_i32(to)); });
    }
    if constexpr (kVectors % 2 != 0 && kCutsVectors) {
      is_signed ? store_last_int8<true>(zero) : store_last_int8<false>(zero);
    }
    if constexpr (kPairs > 0) {
      Int16Pairs words;
#pragma GCC unroll 16
      for (int i = 0; i < kInt16Pairs; ++i) {
        const F32* pair = x[i / kPairs] + i % kPairs * 2;
        words[i] = pack_int16(bits_of(pair[0]), bits_of(pair[1]));
      }
      if (zero != 0) {
#pragma GCC unroll 16
        for (int i = 0; i < kInt16Pairs; ++i) words[i] = add_to_int16(words[i], zero);
      }
      is_signed ? store_int16_pairs<true>(words) : store_int16_pairs<false>(words);
    }
  }

  inline __attribute__((always_inline)) void scale_and_add_bias() {
    if (e.scale != nullptr) each_with(e.scale, [](F32 a, F32 b) { return a * b; });
    if (e.bias != nullptr) each_with(e.bias, [](F32 a, F32 b) { return a + b; });
  }
  inline __attribute__((always_inline)) void activate() {
    // u8 saturation at 0 already implements ReLU if the zero point is 0.
    const bool cuts = e.out == ElementType::u8 && e.out_zero == 0;
    const bool has_relu = e.has_activation && e.activation == Activation::relu;
    if (has_relu && !cuts) each([](F32& to, int, int) { to = relu(to); });
    if (e.has_activation && !has_relu) each([](F32& to, int, int) { to = hard_swish(to); });
  }
  // Epilogue without a residual, output int8 or bf16.
  inline __attribute__((always_inline)) void apply_narrow() {
    scale_and_add_bias();
    activate();
    if constexpr (kIntegers) store_int8();
    if constexpr (kBf16) store_bf16();
  }
  inline __attribute__((always_inline)) void finish() {
    scale_and_add_bias();
    if (e.residual != nullptr) add_residuals();
    activate();
    if (e.out == ElementType::f32) return store_floats();
    if constexpr (kIntegers) store_int8();
    if constexpr (kBf16) store_bf16();
  }
};

}  // namespace
}  // namespace lathe::cpu
