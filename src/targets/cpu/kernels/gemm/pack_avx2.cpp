// SPDX-License-Identifier: MIT
#include <immintrin.h>

#include "targets/cpu/kernels/gemm/pack_table.h"

namespace lathe::cpu {
namespace {

constexpr int kStep = 16;  // columns per step

__m256i load(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
void store(void* p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }

void pairs(const uint16_t* rows, int64_t row_stride, int64_t count, int64_t columns,
           uint32_t* out) {
  for (int64_t r = 0; r < count; r += 2, rows += 2 * row_stride) {
    for (int64_t c = 0; c < columns; c += kStep, out += kStep) {
      const __m256i first = load(rows + c);
      const __m256i second = r + 1 < count ? load(rows + row_stride + c) : _mm256_setzero_si256();
      const __m256i low = _mm256_unpacklo_epi16(first, second);  // columns 0-3, 8-11
      const __m256i high = _mm256_unpackhi_epi16(first, second);
      store(out, _mm256_permute2x128_si256(low, high, 0x20));
      store(out + 8, _mm256_permute2x128_si256(low, high, 0x31));
    }
  }
}

void quads(const uint8_t* rows, int64_t row_stride, int64_t count, int64_t columns, int flip,
           uint32_t* out, int32_t* sums) {
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  const __m256i byte_ones = _mm256_set1_epi8(1), word_ones = _mm256_set1_epi16(1);
  for (int64_t r = 0; r < count; r += 4, rows += 4 * row_stride) {
    for (int64_t c = 0; c < columns; c += kStep, out += kStep) {
      const auto row = [&](int64_t i) {
        if (r + i >= count) return _mm_setzero_si128();
        const auto* from = reinterpret_cast<const __m128i*>(rows + i * row_stride + c);
        return _mm_xor_si128(_mm_loadu_si128(from), flips);
      };
      const __m128i a = row(0), b = row(1), d = row(2), e = row(3);
      const __m128i first_low = _mm_unpacklo_epi8(a, b), first_high = _mm_unpackhi_epi8(a, b);
      const __m128i second_low = _mm_unpacklo_epi8(d, e), second_high = _mm_unpackhi_epi8(d, e);
      const __m256i groups[2] = {
          _mm256_set_m128i(_mm_unpackhi_epi16(first_low, second_low),
                           _mm_unpacklo_epi16(first_low, second_low)),
          _mm256_set_m128i(_mm_unpackhi_epi16(first_high, second_high),
                           _mm_unpacklo_epi16(first_high, second_high)),
      };
      for (int i = 0; i < 2; ++i) {
        store(out + i * 8, groups[i]);
        const __m256i pairs = _mm256_maddubs_epi16(byte_ones, groups[i]);
        int32_t* sum = sums + c + i * 8;
        store(sum, _mm256_add_epi32(load(sum), _mm256_madd_epi16(pairs, word_ones)));
      }
    }
  }
}

}  // namespace

const PackTable kPackAvx2{pairs, quads};

}  // namespace lathe::cpu
