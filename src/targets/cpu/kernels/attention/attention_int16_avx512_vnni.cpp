// SPDX-License-Identifier: MIT
// Attention over an int8 cache without conversion. Queries become int16 relative to the largest of
// a row; weights relative to the largest of a row and block. Accumulators are exact, so their order
// is free.
#include "targets/cpu/kernels/attention/attention_decode_kernel.h"
#include "targets/cpu/kernels/attention/attention_values_avx512.h"
#include "targets/cpu/kernels/attention/attention_widen.h"

namespace lathe::cpu {
namespace {

constexpr float kLargestWeight = 32767;
constexpr float kLeastWeight = 1e-30F;  // a smaller maximum sets a block's weights to 0
// Largest value whose high byte fits int8; dot products of kMaxExactElements fit int32.
constexpr float kLargestQuery = 127 * 256;
constexpr int64_t kMaxExactElements = 512;

struct Int16Step {  // pairs of int16
  static constexpr bool kIntegers = true;
  static F32 spread(const std::byte* a) { return PairStep::spread(a); }
  static F32 add(F32 acc, F32 a, F32 b) {
    // Inline assembly: the compiler splits the intrinsic into a multiplication and an addition.
    __m512i sum = bits_of(acc).v;
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(bits_of(a).v), "v"(bits_of(b).v));
    return from_bits({sum});
  }
};

inline F32 magnitude(F32 x) { return {_mm512_abs_ps(x.v)}; }
// Magnitudes as bit patterns: a NaN exceeds all other values.
inline I32 magnitude_bits(F32 x) { return bits_of(x) & set1(0x7FFFFFFF); }

float quantise(const float* from, int64_t count, int64_t size, bool split, void* to) {
  F32 top = zero_f32(), odd = zero_f32();
  for (int64_t i = 0; i < count; i += kLanes) {
    const F32 x = load(from + i, mask_first(count - i < kLanes ? count - i : kLanes));
    top = max(top, magnitude(x));
    odd = odd + x * zero_f32();  // NaN if an element is not finite
  }
  float other[kLanes];
  store(other, odd);
  float largest = max_lanes(top);
  for (const float x : other) largest += x;
  const float most = size > kMaxExactElements ? kLargestQuery / 2 : kLargestQuery;
  const F32 by = set1(largest > 0 ? most / largest : 0.0F);
  auto* int16 = static_cast<int16_t*>(to);
  auto* high = static_cast<int8_t*>(to);
  for (int64_t i = 0; i < size; i += kLanes) {
    const int64_t left = count - i;
    const F32 x = load(from + i, mask_first(left < 0 ? 0 : left < kLanes ? left : kLanes));
    const I32 q = to_i32(max(min(x * by, set1(most)), set1(-most)));
    const Mask mask = mask_first(size - i < kLanes ? size - i : kLanes);
    if (!split) {
      _mm512_mask_cvtepi32_storeu_epi16(int16 + i, mask.m, q.v);
      continue;
    }
    const I32 upper{_mm512_srai_epi32((q + set1(128)).v, 8)};
    _mm512_mask_cvtepi32_storeu_epi8(high + i, mask.m, upper.v);
    _mm512_mask_cvtepi32_storeu_epi8(high + size + i, mask.m, q.v);
  }
  return largest / most;
}

void widen_to_int16(ElementType, const void* from, int64_t count, void* to) {
  const auto* p = static_cast<const int8_t*>(from);
  auto* out = static_cast<int16_t*>(to);
  for (int64_t i = 0; i < count; i += 32) {
    const auto mask =
        static_cast<__mmask32>(count - i < 32 ? (uint32_t{1} << (count - i)) - 1 : ~uint32_t{0});
    const __m512i int16 = _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(mask, p + i));
    _mm512_mask_storeu_epi16(out + i, mask, int16);
  }
}

// Factor of a block's weights from the largest of them. A NaN yields 0, and a NaN scale.
inline F32 weight_factor(F32 largest) {
  const F32 by = set1(kLargestWeight) / largest;
  return select(less_equal(largest, set1(kLeastWeight)), zero_f32(), by);
}

// For prefill tiles.

template <int kV>
void weights_to_int16(const AttentionBlock& b, float* scales) {
  constexpr int64_t kPitch = kV * kLanes;
  for (int v = 0; v < kV; ++v) {
    const float* from = b.scores + v * kLanes;
    I32 sizes = set1(0);
    for (int64_t key = 0; key < b.keys; ++key) {
      sizes = max(sizes, magnitude_bits(load(from + key * kPitch)));
    }
    const F32 top = from_bits(sizes), by = weight_factor(top);
    store(scales + v * kLanes, top * set1(1 / kLargestWeight));
    auto* to = static_cast<int32_t*>(b.weights) + v * kLanes;
    for (int64_t key = 0; key < b.keys; key += 2, to += kPitch) {
      const I32 low = to_i32(load(from + key * kPitch) * by);
      const I32 high = key + 1 < b.keys ? to_i32(load(from + (key + 1) * kPitch) * by) : set1(0);
      store(to, I32{_mm512_mask_blend_epi16(0xAAAAAAAA, low.v, _mm512_slli_epi32(high.v, 16))});
    }
  }
}

template <int kV>
void prefill_int16_tile(const AttentionBlock& b) {
  gemm<Int16Step, true, kV>(static_cast<const std::byte*>(b.k), b.k_stride, 4,
                            static_cast<const float*>(b.q), b.size / 2, b.scores, b.keys, *b.next_k,
                            b.q_scales);
  softmax<false, kV>(b);
  float scales[kV * kLanes];
  weights_to_int16<kV>(b, scales);
  gemm<Int16Step, false, kV>(static_cast<const std::byte*>(b.v), 0, b.v_stride,
                             static_cast<const float*>(b.weights), (b.keys + 1) / 2, b.output,
                             b.value_size, *b.next_v, scales);
}

void prefill_int16(const AttentionBlock& b) {
  switch (b.pitch / kLanes) {
    case 1:
      return prefill_int16_tile<1>(b);
    case 2:
      return prefill_int16_tile<2>(b);
    default:
      return prefill_int16_tile<3>(b);
  }
}

// Decode multiplies int8 values: high and low bytes of queries and weights have separate
// accumulators.

inline I32 join(I32 high, I32 low) {
  return {_mm512_add_epi32(_mm512_slli_epi32(high.v, 8), low.v)};
}

inline I32 broadcast_int8x4(const void* from) {
  int32_t x;
  __builtin_memcpy(&x, from, sizeof x);
  return set1(x);
}

// The first `count` bytes of 16.
inline __m128 load_bytes(const std::byte* from, int64_t count) {
  const auto mask = static_cast<__mmask16>(count < 16 ? (1 << count) - 1 : 0xFFFF);
  return _mm_castsi128_ps(_mm_maskz_loadu_epi8(mask, from));
}

// Prefetches the next rows from L2 to L1.
inline __attribute__((always_inline)) void prefetch_to_l1(const std::byte*& at) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i, at += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  }
}

template <int kRows>
inline __attribute__((always_inline)) void add_int8(F32 x, const float* q, int64_t low,
                                                    I32 (&high_sums)[kRows],
                                                    I32 (&low_sums)[kRows]) {
  // Keys plus 128 are unsigned; `begin` compensates.
  const I32 key{_mm512_xor_si512(bits_of(x).v, _mm512_set1_epi8(INT8_MIN))};
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    high_sums[r] = dot_u8s8(high_sums[r], key, broadcast_int8x4(q + r));
    low_sums[r] = dot_u8s8(low_sums[r], key, broadcast_int8x4(q + low + r));
  }
}

// begin[0, 1]: -128 times the byte sum of each row's query, high and low bytes.
template <int kRows>
void score_int8(const AttentionBlock& b, int64_t row, const int32_t (&begin)[2][kLanes],
                L2Prefetcher& l2) {
  const int64_t units = b.size / 4, low = units * kLanes;
  for (int64_t key = 0; key < b.keys; key += kLanes) {
    const auto* q = static_cast<const float*>(b.q) + row;
    KeyRows k(b, key);
    const std::byte* l1_next =
        key + kSegment < b.keys ? b.k_segments[key / kSegment + 1] : b.v_segments[0];
    if (row == 0 && b.next_v->contiguous_bytes == 0) prefetch(*b.next_v);
    I32 high_sums[kRows], low_sums[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      high_sums[r] = set1(begin[0][row + r]);
      low_sums[r] = set1(begin[1][row + r]);
    }
    int64_t left = b.key_columns;
    if (key + kLanes <= b.keys) {
      for (; left >= 16; left -= 16, q += kUnits * kLanes) {
        l2.prefetch<3>();
        prefetch_to_l1(l1_next);
        F32 x[kUnits];
        transpose_key_units(
            [&](int at) { return _mm_loadu_ps(reinterpret_cast<const float*>(k.at(at))); }, x);
#pragma GCC unroll 4
        for (int t = 0; t < kUnits; ++t) {
          add_int8<kRows>(x[t], q + t * kLanes, low, high_sums, low_sums);
        }
        k.advance();
      }
    }
    for (; left > 0; left -= 16, q += kUnits * kLanes) {
      const auto bytes_of = [&](int at) {
        return key + at < b.keys ? load_bytes(k.at(at), left) : _mm_setzero_ps();
      };
      F32 x[kUnits];
      transpose_key_units(bytes_of, x);
      for (int t = 0; t < kUnits && 4 * t < left; ++t) {
        add_int8<kRows>(x[t], q + t * kLanes, low, high_sums, low_sums);
      }
      k.advance();
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      store(b.scores + (row + r) * kKeyBlock + key,
            to_f32(join(high_sums[r], low_sums[r])) * set1(b.q_scales[row + r]));
    }
  }
}

// Stores the high bytes of a row's weights, then the low ones, and the row's scale. Returns true if
// a weight may be negative.
template <bool kFull>
bool weights_to_int8(const AttentionBlock& b, int64_t rows, float* scales, L2Prefetcher& l2) {
  constexpr int kVectors = static_cast<int>(kKeyBlock) / kLanes;
  float v_copy[kKeyBlock];
  const float* v_scales = contiguous_scales(b.v_scales, b.v_scale_step, b.keys, v_copy);
  const auto load_row = [&](int64_t row, F32(&x)[kVectors]) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) x[i] = load(b.scores + row * kKeyBlock + i * kLanes);
    if (v_scales != nullptr) scale_weights<kFull>(x, v_scales, b);
  };
  I32 signs = set1(0);
  float largest[kMaxDecodeRows];  // maxima of all rows first, to hide the latency of the reductions
  for (int64_t row = 0; row < rows; ++row) {
    F32 x[kVectors];
    load_row(row, x);
    I32 top[2] = {set1(0), set1(0)};
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) {
      signs = signs | bits_of(x[i]);
      top[i % 2] = max(top[i % 2], magnitude_bits(x[i]));
    }
    largest[row] = lane0(from_bits(set1(_mm512_reduce_max_epi32(max(top[0], top[1]).v))));
  }
  auto* to = static_cast<int8_t*>(b.weights);
  for (int64_t row = 0; row < rows; ++row, to += 2 * kKeyBlock) {
    F32 x[kVectors];
    load_row(row, x);
    l2.prefetch<4>();
    const F32 by = weight_factor(set1(largest[row]));
    scales[row] = largest[row] * (1 / kLargestWeight);
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) {
      const I32 w = to_i32(x[i] * by);
      const auto place = [&](int64_t at) {
        return reinterpret_cast<__m128i*>(to + at + i * kLanes);
      };
      _mm_storeu_si128(place(0), _mm512_cvtepi32_epi8(_mm512_srai_epi32(w.v, 8)));
      _mm_storeu_si128(place(kKeyBlock), _mm512_cvtepi32_epi8(w.v));
    }
  }
  return _mm512_movepi32_mask(signs.v) != 0;
}

// Transposes four keys of 64 columns; half of each 16 columns. Each vector has four of these
// columns, a column's four elements contiguous.
template <bool kUpper>
inline void transpose_values(const __m512i (&v)[4], I32 (&x)[2]) {
  const auto pair = [](__m512i a, __m512i b) {
    return kUpper ? _mm512_unpackhi_epi8(a, b) : _mm512_unpacklo_epi8(a, b);
  };
  const __m512i a = pair(v[0], v[1]), b = pair(v[2], v[3]);
  x[0] = {_mm512_unpacklo_epi16(a, b)};
  x[1] = {_mm512_unpackhi_epi16(a, b)};
}

// Half of 64 columns of kRows rows: writes two vectors of acc[row] from 2 · kUpper on.
template <int kRows, bool kUpper>
inline void add_values(const AttentionBlock& b, int64_t at, int64_t row, I32 (*acc)[4],
                       L2Prefetcher& l2) {
  const auto* weights = static_cast<const int8_t*>(b.weights) + row * 2 * kKeyBlock;
  const int64_t columns = b.value_columns - at;
  const __mmask64 mask = columns >= 64 ? ~uint64_t{0} : (uint64_t{1} << columns) - 1;
  I32 high[kRows][2], low[kRows][2];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    high[r][0] = high[r][1] = low[r][0] = low[r][1] = set1(0);
  }
  const auto add = [&](const __m512i(&v)[4], int64_t key) __attribute__((always_inline)) {
    I32 x[2];
    transpose_values<kUpper>(v, x);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const I32 upper = broadcast_int8x4(weights + r * 2 * kKeyBlock + key);
      const I32 lower = broadcast_int8x4(weights + r * 2 * kKeyBlock + kKeyBlock + key);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        high[r][i] = dot_u8s8(high[r][i], upper, x[i]);
        low[r][i] = dot_u8s8(low[r][i], lower, x[i]);
      }
    }
  };
  for (int64_t first = 0; first < b.keys; first += kSegment) {
    if (row == 0 && at == 0 && !kUpper && b.next_k->contiguous_bytes == 0) prefetch(*b.next_k);
    const std::byte* rows = b.v_segments[first / kSegment] + at;
    const std::byte* l1_next = rows;
    if (first + kSegment < b.keys) {
      l1_next = b.v_segments[first / kSegment + 1] + at * kSegment;
    } else if (b.next_k->contiguous_bytes > 0) {
      l1_next = b.next_k->contiguous[0] + at * kSegment;
    }
    const int64_t keys = b.keys - first < kSegment ? b.keys - first : kSegment;
    int64_t key = 0;
    if (columns >= 64) {
      for (; key + 4 <= keys; key += 4, rows += 4 * b.v_stride) {
        l2.prefetch<2>();
        if constexpr (!kUpper) prefetch_to_l1(l1_next);
        __m512i v[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; ++i) v[i] = _mm512_loadu_si512(rows + i * b.v_stride);
        add(v, first + key);
      }
    }
    for (; key < keys; key += 4, rows += 4 * b.v_stride) {
      __m512i v[4];
      for (int i = 0; i < 4; ++i) {
        v[i] = _mm512_maskz_loadu_epi8(key + i < keys ? mask : 0, rows + i * b.v_stride);
      }
      add(v, first + key);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) acc[r][2 * kUpper + i] = join(high[r][i], low[r][i]);
  }
}

template <int kRows>
void value_int8(const AttentionBlock& b, int64_t row, const float* scales, L2Prefetcher& l2) {
  for (int64_t at = 0; at < b.value_size; at += 64) {
    I32 acc[kRows][4];
    add_values<kRows, false>(b, at, row, acc, l2);
    add_values<kRows, true>(b, at, row, acc, l2);
    for (int r = 0; r < kRows; ++r) {
      const __m512i a = _mm512_shuffle_i32x4(acc[r][0].v, acc[r][1].v, 0x44);
      const __m512i c = _mm512_shuffle_i32x4(acc[r][0].v, acc[r][1].v, 0xEE);
      const __m512i d = _mm512_shuffle_i32x4(acc[r][2].v, acc[r][3].v, 0x44);
      const __m512i e = _mm512_shuffle_i32x4(acc[r][2].v, acc[r][3].v, 0xEE);
      const __m512i x[4] = {_mm512_shuffle_i32x4(a, d, 0x88), _mm512_shuffle_i32x4(a, d, 0xDD),
                            _mm512_shuffle_i32x4(c, e, 0x88), _mm512_shuffle_i32x4(c, e, 0xDD)};
      float* to = b.output + (row + r) * b.output_pitch + at;
      for (int i = 0; i < 4 && at + i * kLanes < b.value_size; ++i) {
        store(to + i * kLanes, to_f32(I32{x[i]}) * set1(scales[row + r]));
      }
    }
  }
}

// Scalar fallback for negative value scales, which make weights negative.
void value_scalar(const AttentionBlock& b, int64_t row, const float* scales) {
  const auto* high = static_cast<const int8_t*>(b.weights) + row * 2 * kKeyBlock;
  const auto* low = reinterpret_cast<const uint8_t*>(high + kKeyBlock);
  for (int64_t at = 0; at < b.value_columns; ++at) {
    int32_t sum = 0;
    for (int64_t key = 0; key < b.keys; ++key) {
      const std::byte* v = b.v_segments[key / kSegment] + key % kSegment * b.v_stride + at;
      sum += (high[key] * 256 + low[key]) * static_cast<int8_t>(*v);
    }
    b.output[row * b.output_pitch + at] = static_cast<float>(sum) * scales[row];
  }
}

void decode_int8(const AttentionBlock& b, int64_t rows) {
  L2Prefetcher l2(b);
  int32_t begin[2][kLanes];
  const int64_t units = b.size / 4;
  const auto* q = static_cast<const float*>(b.q);
  I32 acc[2][2] = {{set1(0), set1(0)}, {set1(0), set1(0)}};  // two accumulators hide the latency
  const auto add = [&](int64_t unit, int i) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int part = 0; part < 2; ++part) {
      acc[part][i] = dot_u8s8(acc[part][i], I32{_mm512_set1_epi8(INT8_MIN)},
                              bits_of(load(q + (part * units + unit) * kLanes)));
    }
  };
  for (int64_t unit = 0; unit + 1 < units; unit += 2) add(unit, 0), add(unit + 1, 1);
  if (units % 2 != 0) add(units - 1, 0);
  for (int part = 0; part < 2; ++part) store(begin[part], set1(0) - (acc[part][0] + acc[part][1]));
  for_rows(rows, [&](int64_t row, auto count) { score_int8<count()>(b, row, begin, l2); });
  softmax_rows<false, false>(b, rows, l2);
  float scales[kMaxDecodeRows];
  const bool negative = b.keys == kKeyBlock ? weights_to_int8<true>(b, rows, scales, l2)
                                            : weights_to_int8<false>(b, rows, scales, l2);
  if (negative) {
    for (int64_t row = 0; row < rows; ++row) value_scalar(b, row, scales);
    return;
  }
  for_rows(rows, [&](int64_t row, auto count) { value_int8<count()>(b, row, scales, l2); });
}

}  // namespace

const AttentionKernels& attention_int16_avx512() {
  static constexpr AttentionKernels kKernels = {
      .bf16 = true,
      .int16 = true,
      .lanes = kLanes,
      .vectors = kRowVectors,
      .size_step = 4,
      .value_step = 1,
      .key_step = 1,
      .quantise = quantise,
      .transpose = transpose_units,
      .stage_values = stage_pairs,
      .value_stride = pairs_stride,
      .prefill = prefill_int16,
      .max_decode_rows = kMaxDecodeRows,
      .decode_prefetches = true,
      .decode = decode_int8,
      .score_prefetches = score_prefetches,
      .value_prefetches = kValuePrefetches,
      .decode_reads_int8 = true,
      .widen = widen_to_int16,
      .merge = merge,
      .merge_rows = merge_rows,
      .factors = factors,
      .scale_row = scale_row,
  };
  return kKernels;
}

}  // namespace lathe::cpu
