// SPDX-License-Identifier: MIT
// Body of pooling_*.cpp.
#pragma once

#include "targets/cpu/kernels/pool/pooling_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

template <bool kAverage>
inline F32 start() {
  return kAverage ? zero_f32() : set1(-__builtin_inff());
}
// Keeps the first of equal values; NaN wins.
template <bool kAverage>
inline F32 join(F32 acc, F32 x) {
  if constexpr (kAverage) {
    return acc + x;
  } else {
    return select(is_nan(x), x, max(x, acc));
  }
}

// p[0], p[stride], …
inline F32 load_strided(const float* p, int64_t stride) {
  if (stride == 1) return load(p);
#if defined(__AVX512F__)
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i at = _mm512_mullo_epi32(lanes, _mm512_set1_epi32(static_cast<int32_t>(stride)));
  return {_mm512_i32gather_ps(at, p, 4)};
#else
  const float* q = p + 4 * stride;
  return {_mm256_setr_ps(p[0], p[stride], p[2 * stride], p[3 * stride], q[0], q[stride],
                         q[2 * stride], q[3 * stride])};
#endif
}

// `valid` taps are inside the input; a mean divides by `counted`.
inline F32 final_value(const PoolingFinish& f, F32 x, F32 valid, F32 counted) {
  if (!f.average) return x;
  if (f.integer) x = (x - valid * set1(f.x_zero)) * set1(f.ratio);
  x = x / counted;
  return f.integer ? round_even(x) + set1(f.y_zero) : x;
}

template <class T>
inline void store_result(T* p, F32 x, Mask mask) {
  store_f32(p, x, mask);
}
template <>
inline void store_result<int8_t>(int8_t* p, F32 x, Mask mask) {
  store_i32(p, saturate(x, -128, 127), mask);
}
template <>
inline void store_result<uint8_t>(uint8_t* p, F32 x, Mask mask) {
  store_i32(p, saturate(x, 0, 255), mask);
}

inline Mask part(int64_t left) { return mask_first(left < kLanes ? left : kLanes); }

template <bool kAverage, class T>
void pool_row(const PoolingRow& s) {
  const auto* x = static_cast<const T*>(s.x);
  for (int64_t i = 0; i < s.pad_begin; i += kLanes) {
    store(s.buffer + i, start<kAverage>());
  }
  for (int64_t i = s.pad_begin + s.input; i < s.buffer_size; i += kLanes) {
    store(s.buffer + i, start<kAverage>(), part(s.buffer_size - i));
  }
  for (int64_t i = 0; i < s.input; i += kLanes) {
    const Mask mask = part(s.input - i);
    F32 acc = start<kAverage>();
    for (int64_t d = 0; d < s.taps[0]; ++d) {
      for (int64_t h = 0; h < s.taps[1]; ++h) {
        const T* row = x + d * s.strides[0] + h * s.strides[1] + i;
        acc = join<kAverage>(acc, load_f32(row, mask));
      }
    }
    store(s.buffer + s.pad_begin + i, acc, mask);
  }
  const F32 outer_valid = set1(s.outer_valid), outer_counted = set1(s.outer_counted);
  for (int64_t i = 0; i < s.outputs; i += kLanes) {
    const Mask mask = part(s.outputs - i);
    F32 acc = start<kAverage>();
    for (int64_t k = 0; k < s.kernel; ++k) {
      acc = join<kAverage>(acc, load_strided(s.buffer + i * s.stride + k * s.dilation, s.stride));
    }
    acc = final_value(s.finish, acc, load(s.valid + i, mask) * outer_valid,
                      load(s.counted + i, mask) * outer_counted);
    store_result(static_cast<T*>(s.y) + i, acc, mask);
  }
}

template <bool kAverage, class T, int kV>
inline void pool_channels(const PoolingPoint& s, int64_t channel, Mask last) {
  const Mask all = mask_first(kLanes);
  F32 acc[kV];
  for (int v = 0; v < kV; ++v) acc[v] = start<kAverage>();
  const auto* x = static_cast<const T*>(s.x) + channel;
  for (int64_t d = 0; d < s.taps[0]; ++d) {
    for (int64_t h = 0; h < s.taps[1]; ++h) {
      const T* row = x + d * s.strides[0] + h * s.strides[1];
      for (int64_t w = 0; w < s.taps[2]; ++w, row += s.strides[2]) {
#pragma GCC unroll 4
        for (int v = 0; v < kV; ++v) {
          const F32 one =
              v + 1 < kV || kV > 1 ? load_f32(row + v * kLanes) : load_f32(row + v * kLanes, last);
          acc[v] = join<kAverage>(acc[v], one);
        }
      }
    }
  }
  for (int v = 0; v < kV; ++v) {
    store_result(static_cast<T*>(s.y) + channel + v * kLanes,
                 final_value(s.finish, acc[v], set1(s.valid), set1(s.counted)),
                 kV > 1 ? all : last);
  }
}

template <bool kAverage, class T>
void pool_point(const PoolingPoint& s) {
  int64_t channel = 0;
  for (; channel + 4 * kLanes <= s.channels; channel += 4 * kLanes) {
    pool_channels<kAverage, T, 4>(s, channel, mask_first(kLanes));
  }
  for (; channel < s.channels; channel += kLanes) {
    pool_channels<kAverage, T, 1>(s, channel, part(s.channels - channel));
  }
}

template <bool kAverage, class T>
void pool_whole(const T* x, int64_t count, const PoolingFinish& finish, T* y) {
  F32 acc[4];
  for (F32& one : acc) one = start<kAverage>();
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) acc[v] = join<kAverage>(acc[v], load_f32(x + i + v * kLanes));
  }
  for (; i < count; i += kLanes) {
    const Mask mask = part(count - i);
    acc[0] = join<kAverage>(acc[0], keep(mask, load_f32(x + i, mask), start<kAverage>()));
  }
  F32 all = join<kAverage>(join<kAverage>(acc[0], acc[1]), join<kAverage>(acc[2], acc[3]));
  float lanes[kLanes];
  store(lanes, all);
  all = set1(lanes[0]);
  for (int lane = 1; lane < kLanes; ++lane) all = join<kAverage>(all, set1(lanes[lane]));
  const F32 divisor = set1(static_cast<float>(count));
  store_result(y, final_value(finish, all, divisor, divisor), mask_first(1));
}

// Calls f with a pointer of the element's memory type.
template <class F>
inline void with_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::bf16:
      return f(static_cast<Bf16*>(nullptr));
    case ElementType::f16:
      return f(static_cast<F16*>(nullptr));
    case ElementType::i8:
      return f(static_cast<int8_t*>(nullptr));
    case ElementType::u8:
      return f(static_cast<uint8_t*>(nullptr));
    default:
      return f(static_cast<float*>(nullptr));
  }
}

void row(ElementType type, const PoolingRow& s) {
  with_type(type,
            [&]<class T>(T*) { s.finish.average ? pool_row<true, T>(s) : pool_row<false, T>(s); });
}

void point(ElementType type, const PoolingPoint& s) {
  with_type(type, [&]<class T>(T*) {
    s.finish.average ? pool_point<true, T>(s) : pool_point<false, T>(s);
  });
}

void whole(ElementType type, const void* x, int64_t count, const PoolingFinish& finish, void* y) {
  with_type(type, [&]<class T>(T*) {
    const auto* from = static_cast<const T*>(x);
    auto* to = static_cast<T*>(y);
    finish.average ? pool_whole<true, T>(from, count, finish, to)
                   : pool_whole<false, T>(from, count, finish, to);
  });
}

constexpr PoolingKernels kPoolingKernels{row, point, whole};

}  // namespace
}  // namespace lathe::cpu
