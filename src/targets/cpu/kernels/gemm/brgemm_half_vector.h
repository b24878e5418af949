// SPDX-License-Identifier: MIT
// The last 24 columns of products of f32 by three vectors of half the width in place of two whole
// ones, on processors that take two steps for each of those. The bits are the same.
#pragma once

#include "targets/cpu/kernels/gemm/brgemm_tile.h"

namespace lathe::cpu {
namespace {

template <class P>
constexpr bool kHalves = kRegisters == 32 && P::kGroup == 1;

constexpr int64_t kHalfLanes = kLanes / 2;
constexpr int64_t kHalfColumns = 3 * kHalfLanes;
constexpr int kHalfRows = 7;  // that images of sizes 7, 14, 28, … fill

enum class HalfLast : uint8_t { clamp, residual, hard_swish };

// Whether a call's last columns go this way.
inline bool takes_halves(const BrgemmCall& call) {
  const int64_t before = call.columns - kHalfColumns;
  if (before < 0 || before % kLanes != 0) return false;
  if (call.rows < kHalfRows || call.block_count != 1 || call.line_pitch != 0) return false;
  if (call.start != nullptr || call.epilogue == nullptr || call.epilogue->simple == nullptr ||
      !host_splits_vectors()) {
    return false;
  }
  const SimpleEpilogue& e = *call.epilogue->simple;
  if (e.out != ElementType::f32 || e.scale != nullptr) return false;
  const bool has_hard_swish = e.has_activation && e.activation == Activation::hard_swish;
  if (e.has_activation && e.activation != Activation::relu && !has_hard_swish) return false;
  if (e.residual == nullptr) return true;
  return !has_hard_swish && e.residual_type == ElementType::f32;
}

#if defined(__AVX512VL__)
template <HalfLast kLast>
struct Halves {
  const char* b[3];
  __m256 bias[3], low;
  const float* residual = nullptr;  // of the first row
  int64_t residual_stride;

  Halves(const BrgemmCall& call, int64_t column) {
    const SimpleEpilogue& e = *call.epilogue->simple;
#pragma GCC unroll 3
    for (int h = 0; h < 3; ++h) {
      const int64_t at = column + h * kHalfLanes, c = call.column + at;
      b[h] = static_cast<const char*>(call.blocks[0].b) + at / kPanelColumns * call.b_panel_stride +
             at % kPanelColumns * 4;
      bias[h] = e.bias == nullptr ? _mm256_set1_ps(-0.0F) : _mm256_loadu_ps(e.bias + c);
    }
    const bool has_relu = e.has_activation && e.activation == Activation::relu;
    low = _mm256_set1_ps(has_relu ? 0.0F : -__builtin_inff());
    residual_stride = e.residual_stride;
    if (e.residual != nullptr)
      residual =
          static_cast<const float*>(e.residual) + call.row * residual_stride + call.column + column;
  }

  inline __attribute__((always_inline)) __m256 last(__m256 x, int row, int h,
                                                    const float* added) const {
    x = _mm256_add_ps(x, bias[h]);
    if constexpr (kLast == HalfLast::residual)
      x = _mm256_add_ps(x, _mm256_loadu_ps(added + row * residual_stride + h * kHalfLanes));
    if constexpr (kLast != HalfLast::hard_swish) return _mm256_max_ps(low, x);
    const __m256 sixth = _mm256_set1_ps(static_cast<float>(1.0 / 6));
    __m256 y = _mm256_add_ps(_mm256_mul_ps(x, sixth), _mm256_set1_ps(0.5F));
    y = _mm256_max_ps(_mm256_setzero_ps(), _mm256_min_ps(_mm256_set1_ps(1), y));
    return _mm256_mul_ps(x, y);
  }
};

template <HalfLast kLast>
__attribute__((noinline)) void multiply_halves(const BrgemmCall& call, int64_t column,
                                               Fetch fetch) {
  const Halves<kLast> halves(call, column);
  const int64_t stride = call.a_row_stride, turns = call.k / 4;
  const int64_t tiles = (call.rows + kHalfRows - 1) / kHalfRows;
  const auto* later = static_cast<const char*>(call.ahead);
  const int64_t pace = column == 0 && turns > 0 ? call.prefetch_bytes / (tiles * turns) : 0;
  const int64_t below_pace = fetch.rows * kHalfRows;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t row = t + 1 < tiles ? t * kHalfRows : call.rows - kHalfRows;
    const char* a = static_cast<const char*>(call.blocks[0].a) + row * stride;
    char* out = static_cast<char*>(call.out) + row * call.out_stride + column * 4;
    if (!call.out_is_cached) prefetch_rows(out, call.out_stride, kHalfColumns * 4, kHalfRows);
    const char* below = a + kHalfRows * stride;
    Rows<kHalfRows> rows(a, stride);
    const char *b0 = halves.b[0], *b1 = halves.b[1], *b2 = halves.b[2];
    __m256 sums[kHalfRows][3];
#pragma GCC unroll 8
    for (int r = 0; r < kHalfRows; ++r) {
#pragma GCC unroll 3
      for (int h = 0; h < 3; ++h) sums[r][h] = _mm256_setzero_ps();
    }
    const auto step = [&]<int kOffset>() __attribute__((always_inline)) {
      constexpr int64_t kAt = kOffset * kGroupBytes;
      const __m256 y[3] = {_mm256_loadu_ps(reinterpret_cast<const float*>(b0 + kAt)),
                           _mm256_loadu_ps(reinterpret_cast<const float*>(b1 + kAt)),
                           _mm256_loadu_ps(reinterpret_cast<const float*>(b2 + kAt))};
#pragma GCC unroll 8
      for (int r = 0; r < kHalfRows; ++r) {
        const __m256 x = _mm256_broadcast_ss(reinterpret_cast<const float*>(rows[r] + kOffset * 4));
#pragma GCC unroll 3
        for (int h = 0; h < 3; ++h) {
          sums[r][h] = _mm256_fmadd_ps(x, y[h], sums[r][h]);
          __asm__ volatile("" : : "v"(sums[r][h]));
        }
        __asm__ volatile("" ::: "memory");
      }
    };
    const auto advance = [&](int64_t groups) __attribute__((always_inline)) {
      rows.advance(4 * groups);
      b0 += groups * kGroupBytes;
      b1 += groups * kGroupBytes;
      b2 += groups * kGroupBytes;
    };
    for (int64_t g = 0; g < call.k % 4; ++g) {
      step.template operator()<0>();
      advance(1);
    }
    for (int64_t g = 0; g < turns; ++g) {
      step.template operator()<0>();
      step.template operator()<1>();
      step.template operator()<2>();
      step.template operator()<3>();
      advance(4);
      for (const char* end = later + pace; later < end; later += 64)
        __builtin_prefetch(later, 0, 2);
      for (const char* end = below + below_pace; below < end; below += 64)
        __builtin_prefetch(below);
    }
    const float* added = halves.residual;
    if constexpr (kLast == HalfLast::residual) added += row * halves.residual_stride;
    // One after the other, each stored as soon as it is there; once, for results may take the place
    // of what is added to them.
    const int64_t again = t * kHalfRows - row;
#pragma GCC unroll 8
    for (int r = 0; r < kHalfRows; ++r) {
      if (kLast == HalfLast::residual && r < again) continue;
#pragma GCC unroll 3
      for (int h = 0; h < 3; ++h) {
        const __m256 x = halves.last(sums[r][h], r, h, added);
        auto* to = reinterpret_cast<float*>(out + r * call.out_stride);
        _mm256_storeu_ps(to + h * kHalfLanes, x);
        __asm__ volatile("" ::: "memory");
      }
    }
  }
}

// All rows of a call's last columns.
inline void run_halves(const BrgemmCall& call, Fetch fetch) {
  const SimpleEpilogue& e = *call.epilogue->simple;
  const int64_t column = call.columns - kHalfColumns;
  if (e.residual != nullptr) return multiply_halves<HalfLast::residual>(call, column, fetch);
  if (e.has_activation && e.activation == Activation::hard_swish)
    return multiply_halves<HalfLast::hard_swish>(call, column, fetch);
  multiply_halves<HalfLast::clamp>(call, column, fetch);
}
#endif

}  // namespace
}  // namespace lathe::cpu
