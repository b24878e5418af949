// SPDX-License-Identifier: MIT
// AMX prefill: tiles of 16 keys or values by 16 query rows. Keys are read in place; values are
// transposed.
#include "targets/cpu/kernels/attention/attention_decode_amx.h"
#include "targets/cpu/kernels/attention/attention_softmax.h"
#include "targets/cpu/kernels/attention/attention_values_avx512.h"
#include "targets/cpu/kernels/attention/attention_widen.h"
#include "targets/cpu/kernels/simd/transpose_lanes.h"

namespace lathe::cpu {
namespace {

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// c[16 · kA][·] over `steps` of 32. Rows of a are `a_stride` bytes apart; b is [16
// pairs][pitch].
template <int kA, int kB, int64_t kPitch>
inline void gemm_tile(const std::byte* a, int64_t a_stride, const float* b, int64_t steps,
                      float* c) {
  constexpr int64_t kRow = kPitch * 4;
  _tile_zero(0);
  if constexpr (kB > 1) _tile_zero(1);
  if constexpr (kA > 1) _tile_zero(2);
  if constexpr (kA > 1 && kB > 1) _tile_zero(3);
  for (int64_t t = 0; t < steps; ++t, a += 64, b += 16 * kPitch) {
    _tile_loadd(4, a, a_stride);
    _tile_loadd(6, b, kRow);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kB > 1) {
      _tile_loadd(7, b + 16, kRow);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kA > 1) {
      _tile_loadd(5, a + 16 * a_stride, a_stride);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (kA > 1 && kB > 1) _tile_dpbf16ps(3, 5, 7);
  }
  _tile_stored(0, c, kRow);
  if constexpr (kB > 1) _tile_stored(1, c + 16, kRow);
  if constexpr (kA > 1) _tile_stored(2, c + 16 * kPitch, kRow);
  if constexpr (kA > 1 && kB > 1) _tile_stored(3, c + 16 * kPitch + 16, kRow);
}

// `count` rows of a, rounded up to 16.
template <int kV>
void gemm(const std::byte* a, int64_t a_stride, const float* b, int64_t steps, float* c,
          int64_t count, AttentionPrefetch& next) {
  constexpr int64_t kPitch = kV * 16;
  constexpr int64_t kRows = 16 * kPitch;
  const int64_t step = 16 * a_stride;
  int64_t u = 0;
  for (; u + 32 <= count; u += 32, a += 2 * step, c += 2 * kRows) {
    prefetch(next);
    int v = 0;
    for (; v + 2 <= kV; v += 2) {
      gemm_tile<2, 2, kPitch>(a, a_stride, b + v * 16, steps, c + v * 16);
    }
    if (v < kV) gemm_tile<2, 1, kPitch>(a, a_stride, b + v * 16, steps, c + v * 16);
  }
  for (; u < count; u += 16, a += step, c += kRows) {
    int v = 0;
    for (; v + 2 <= kV; v += 2) {
      gemm_tile<1, 2, kPitch>(a, a_stride, b + v * 16, steps, c + v * 16);
    }
    if (v < kV) gemm_tile<1, 1, kPitch>(a, a_stride, b + v * 16, steps, c + v * 16);
  }
}

template <int kV>
void prefill_tile(const AttentionBlock& b) {
  constexpr int64_t kPitch = kV * 16;
  gemm<kV>(static_cast<const std::byte*>(b.k), b.k_stride, static_cast<const float*>(b.q),
           b.size / 32, b.scores, b.keys, *b.next_k);
  softmax<true, kV>(b);
  const int64_t steps = (b.keys + 31) / 32;
  auto* weights = static_cast<int32_t*>(b.weights);
  for (int64_t i = (b.keys + 1) / 2 * kPitch; i < steps * 16 * kPitch; i += kLanes) {
    store(weights + i, zero_i32());
  }
  gemm<kV>(static_cast<const std::byte*>(b.v), kBlockPairs * 4,
           reinterpret_cast<const float*>(weights), steps, b.output, b.value_size, *b.next_v);
}

void prefill_block(const AttentionBlock& b) {
  const TileConfig config;
  _tile_loadconfig(&config);
  switch (b.pitch / kLanes) {
    case 1:
      prefill_tile<1>(b);
      break;
    case 2:
      prefill_tile<2>(b);
      break;
    case 3:
      prefill_tile<3>(b);
      break;
    default:
      prefill_tile<4>(b);
  }
  _tile_release();
}

// [value_size][kKeyBlock], padded with zeros to a multiple of 32 keys.
void stage_values(const Bf16* rows, int64_t stride, int64_t keys, int64_t value_size, void* to) {
  alignas(64) int32_t pairs[16 * 16];
  const int64_t steps = (keys + 31) / 32;
  const auto* row = reinterpret_cast<const std::byte*>(rows);
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t count = keys - step * 32 < 32 ? keys - step * 32 : 32;
    for (int64_t i = 0; i < value_size; i += 16) {
      const int64_t size = value_size - i < 16 ? value_size - i : 16;
      for (auto& pair : pairs) pair = 0;
      interleave_values(reinterpret_cast<const Bf16*>(row + step * 32 * stride) + i, stride, count,
                        size, pairs, 16);
      F32 x[16];
      for (int j = 0; j < 16; ++j) x[j] = from_bits(load(pairs + j * 16));
      transpose_lanes(x);
      auto* column = static_cast<float*>(to) + i * kBlockPairs + step * 16;
      for (int j = 0; j < 16; ++j) store(column + j * kBlockPairs, x[j]);
    }
  }
}

int64_t value_stride(int64_t) { return kBlockPairs * 4; }

}  // namespace

const AttentionKernels& attention_bf16_amx() {
  static constexpr AttentionKernels kKernels = {
      .bf16 = true,
      .lanes = kLanes,
      .vectors = 4,
      .size_step = 32,
      .value_step = 16,
      .key_step = 16,
      .transpose = transpose_units,
      .stage_values = stage_values,
      .value_stride = value_stride,
      .prefill = prefill_block,
      .max_decode_rows = kMaxDecodeRows,
      .decode = decode_rows,
      .score_prefetches = score_prefetches,
      .value_prefetches = kBlockPairs / kPrefetchPairs,
      .decode_reads_int8 = true,
      .widen = widen_to_bf16,
      .merge = merge,
      .merge_rows = merge_rows,
      .factors = factors,
      .scale_row = scale_row,
  };
  return kKernels;
}

}  // namespace lathe::cpu
