// SPDX-License-Identifier: MIT
// Shared by the f32 and the widened (bf16, int8) depthwise kernels.
#pragma once

#include <type_traits>

#include "targets/cpu/kernels/depthwise/depthwise_row.h"
#include "targets/cpu/kernels/gemm/epilogue_registers.h"
#include "targets/cpu/kernels/gemm/epilogue_simple_kernel.h"
#include "targets/cpu/kernels/gemm/epilogue_table.h"

namespace lathe::cpu {
namespace {

// Outputs and vectors of channels per block: accumulators, one row of weights and a column fit
// registers.
constexpr int kDepthwiseOutputs = 7;
constexpr int kDepthwiseVectors = kRegisters == 32 ? 2 : 1;

// Loads the channels of one column; only the last vector of a row may be partial.
template <class X, int kVectors, bool kTail>
inline void load_column(const DepthwiseRow& row, const X* x, Mask tail, F32 (&to)[kVectors]) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const bool is_cut = kTail && v == kVectors - 1;
    if constexpr (sizeof(X) == 1) {
      // Integer subtraction runs on more ports than f32 subtraction.
      const I32 element = is_cut ? load_i32(x + v * kLanes, tail) : load_i32(x + v * kLanes);
      to[v] = to_f32(element - set1(row.x_zero));
    } else {
      to[v] = is_cut ? load_f32(x + v * kLanes, tail) : load_f32(x + v * kLanes);
    }
  }
}

#if defined(__AVX512F__)
constexpr FinishTile kApplyEpilogue = finish_tile_avx512;
#else
constexpr FinishTile kApplyEpilogue = finish_tile_avx2;
#endif

// Accumulator type in memory: i32 for int8.
template <class X>
using DepthwiseSum = std::conditional_t<sizeof(X) == 1, int32_t, float>;

// Applies the epilogue to `rows` outputs from `output`, `pitch` channels or as many as remain. Not
// inlined: kernels of all sizes share it.
template <class X>
__attribute__((noinline)) void apply_epilogue(const DepthwiseRow& row, const DepthwiseSum<X>* sums,
                                              int64_t pitch, int rows, int64_t output,
                                              int64_t channel) {
  const int64_t out_row = output - row.begin, left = row.channels - channel;
  const int64_t columns = left < pitch ? left : pitch;
  if (row.epilogue == nullptr) {
    auto* out = static_cast<DepthwiseSum<X>*>(row.out) + out_row * row.sums_pitch + channel;
    for (int r = 0; r < rows; ++r, sums += pitch, out += row.sums_pitch) {
      for (int64_t c = 0; c < columns; c += kLanes) {
        const Mask mask = mask_first(columns - c < kLanes ? columns - c : kLanes);
        store(out + c, load(sums + c, mask), mask);
      }
    }
    return;
  }
  const SimpleEpilogue& e = *row.epilogue;
  Epilogue epilogue;
  epilogue.out = e.out;
  epilogue.simple = &e;
  EpilogueTile tile;
  tile.sums = sums;
  tile.integer_sums = sizeof(X) == 1;
  tile.sums_stride = pitch;
  tile.rows = rows;
  tile.columns = columns;
  tile.row = row.row + out_row;
  tile.column = row.column + channel;
  tile.out = static_cast<char*>(row.out) + out_row * row.out_stride + channel * out_size(e.out);
  tile.out_stride = row.out_stride;
  if (row.next_row_out != 0) {
    for (int r = 0; r < rows; ++r)
      _mm_prefetch(static_cast<const char*>(tile.out) + r * row.out_stride + row.next_row_out,
                   _MM_HINT_T1);
  }
  kApplyEpilogue(epilogue, tile);
}

// Common epilogues applied in registers: bias, then ReLU, hard swish or SiLU; for widened types,
// what apply_narrow supports, or SiLU.
struct DepthwiseEpilogue {
  bool fits = false;
  bool has_hard_swish = false;
  bool has_silu = false;
  const float* bias = nullptr;  // null: none
  float low = 0;                // lower bound: 0 for ReLU, else -infinity
  float a = 0;                  // factor of SiLU
};
// True if silu_narrow supports the type.
template <class X>
constexpr bool kSiluNarrow = sizeof(X) == 2 && kCutsVectors;
template <class X>
inline DepthwiseEpilogue depthwise_epilogue(const DepthwiseRow& row) {
  DepthwiseEpilogue to;
  const SimpleEpilogue* e = row.epilogue;
  if constexpr (sizeof(X) != 4) {
    if (e == nullptr || e->residual != nullptr || e->out == ElementType::f32) return to;
    to.has_silu = kSiluNarrow<X> && e->has_activation && e->activation == Activation::silu &&
                  e->out == ElementType::bf16 && e->scale == nullptr;
    to.fits = to.has_silu || fits_registers < sizeof(X) == 1, sizeof(X) == 2 > (*e);
    if (to.has_silu && e->bias != nullptr) to.bias = e->bias + row.column;
    to.a = e->a;
    return to;
  }
  if (e == nullptr || e->out != ElementType::f32 || e->scale != nullptr || e->residual != nullptr ||
      e->column_compensation != nullptr) {
    return to;
  }
  to.has_hard_swish = e->has_activation && e->activation == Activation::hard_swish;
  to.has_silu = e->has_activation && e->activation == Activation::silu;
  to.fits = !e->has_activation || is_relu(*e) || to.has_hard_swish || to.has_silu;
  if (to.fits && e->bias != nullptr) to.bias = e->bias + row.column;
  to.low = is_relu(*e) ? 0.0F : -__builtin_inff();
  to.a = e->a;
  return to;
}

// Prefetches the output of a block, kBytes per output.
template <int kOutputs, int kBytes>
inline __attribute__((always_inline)) void prefetch_outputs(const DepthwiseRow& row, char* out) {
  if (!row.out_is_cold) return;
#pragma GCC unroll 16
  for (int t = 0; t < kOutputs; ++t) {
#pragma GCC unroll 2
    for (int at = 0; at < kBytes; at += 64) {
      // A store miss stalls later stores.
      __builtin_prefetch(out + t * row.out_stride + at, 1);
      _mm_prefetch(out + t * row.out_stride + at + row.next_row_out, _MM_HINT_T1);
    }
  }
}

inline char* output_at(const DepthwiseRow& row, int64_t output, int64_t channel, int64_t size) {
  return static_cast<char*>(row.out) + (output - row.begin) * row.out_stride + channel * size;
}

// Prefetches the memory of a DepthwisePrefetch into L2, an equal share per block. L1 is full of the
// rows in use.
class MemoryPrefetcher {
 public:
  MemoryPrefetcher(const DepthwisePrefetch& memory, int64_t blocks)
      : at_(memory.at), cache_lines_((memory.bytes + 63) / 64) {
    if (cache_lines_ > 0 && blocks > 0) share_ = (cache_lines_ - 1) / blocks + 1;
  }
  void prefetch() {
    const int64_t count = cache_lines_ < share_ ? cache_lines_ : share_;
    for (int64_t i = 0; i < count; ++i, at_ += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at_), _MM_HINT_T1);
    cache_lines_ -= count;
  }

 private:
  const std::byte* at_;
  int64_t cache_lines_;
  int64_t share_ = 0;
};

}  // namespace
}  // namespace lathe::cpu
