// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/attention_rows.h"
#include "targets/cpu/kernels/attention_values_avx512.h"
#include "targets/cpu/kernels/attention_widen.h"

namespace lathe::cpu {
namespace {

// [keys / 2][value_size] pairs.
void stage_values(const Bf16* rows, int64_t stride, int64_t keys, int64_t value_size, void* to) {
  interleave_values(rows, stride, keys, value_size, static_cast<int32_t*>(to), value_size);
}

int64_t value_stride(int64_t value_size) { return value_size * 4; }

// Rows of 8 bits, which bf16 holds exactly, become pairs on their way into registers.
inline F32 pairs_of(__m256i bytes) {
  const auto half = [](__m128i x) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x)); };
  const __m512 low = half(_mm256_castsi256_si128(bytes));
  const __m512 high = half(_mm256_extracti128_si256(bytes, 1));
  return {_mm512_castsi512_ps(reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low)))};
}

struct ByteKeys {
  static F32 read(const AttentionBlock& b, const std::byte* row, int64_t unit) {
    if (2 * (unit + kLanes) > b.key_columns) return read(b, row, unit, kLanes);
    return pairs_of(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 2 * unit)));
  }
  static F32 read(const AttentionBlock& b, const std::byte* row, int64_t unit, int64_t) {
    const int64_t left = b.key_columns - 2 * unit;
    const auto mask = left < 32 ? (uint32_t{1} << left) - 1 : ~uint32_t{0};
    return pairs_of(_mm256_maskz_loadu_epi8(mask, row + 2 * unit));
  }
};

struct ByteValues {
  static F32 read(const std::byte* row, int64_t stride, bool has_odd, int64_t at, Mask mask) {
    const auto bits = [&](const std::byte* from) {
      const __m128i x = _mm_maskz_loadu_epi8(mask.m, from);
      return _mm512_castps_si512(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x)));
    };
    const __m512i even = _mm512_srli_epi32(bits(row + at), 16);
    if (!has_odd) return from_bits({even});
    return from_bits({_mm512_or_si512(even, bits(row + stride + at))});
  }
};

void attend_pairs(const AttentionBlock& b, int64_t rows) {
  b.k_bytes ? score_rows<PairStep, ByteKeys>(b, rows) : score_rows<PairStep>(b, rows);
  softmax_rows<true>(b, rows);
  b.v_bytes ? all_value_rows<PairStep, ByteValues>(b, rows)
            : all_value_rows<PairStep, PairValues>(b, rows);
}

}  // namespace

const AttentionKernels& attention_bf16_avx512() {
  static constexpr AttentionKernels kKernels = {
      .bf16 = true,
      .lanes = kLanes,
      .vectors = kRowVectors,
      .size_step = 2,
      .value_step = 1,
      .key_step = 1,
      .transpose = transpose_units,
      .stage_values = stage_values,
      .value_stride = value_stride,
      .block = attend_block<PairStep>,
      .few_rows = kFewRows,
      .rows = attend_pairs,
      .score_fetches = score_fetches<PairStep>,
      .value_fetches = kKeyBlock / kFetchKeys,
      .rows_read_bytes = true,
      .widen = widen_to_bf16,
      .merge = merge,
      .merge_rows = merge_rows,
      .factors = factors,
      .scale_row = scale_row,
  };
  return kKernels;
}

}  // namespace lathe::cpu
