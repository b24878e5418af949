// SPDX-License-Identifier: MIT
// Depthwise convolution by output rows. Channels are lanes and a block of outputs stays in
// registers. Each input column is read once per kernel row for all outputs whose windows include
// it.
#pragma once

#include "targets/cpu/kernels/depthwise/depthwise_common.h"
#include "targets/cpu/kernels/depthwise/depthwise_f32.h"
#include "targets/cpu/kernels/depthwise/depthwise_int8_pairs.h"

namespace lathe::cpu {
namespace {

// Outputs per one-vector block: long blocks widen each column for more outputs. f32 needs no
// widening, and short blocks spread its cache misses more evenly.
template <class X>
constexpr int kLongOutputs = kRegisters == 32 && sizeof(X) != 4 ? 14 : 7;

// Bias, SiLU and rounding of kRows contiguous rows to bf16. Shared by all kernel sizes. `last`:
// lanes of a row's last vector. Four vectors per step, then two, because stores are paired.
template <int kRows, int kVectors>
__attribute__((noinline)) void silu_narrow(const float* from, Bf16* out, int64_t stride, float a,
                                           const float* bias, Mask last) {
  F32 add[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    add[v] = set1(-0.0F);  // -0 changes no value
    if (bias == nullptr) continue;
    add[v] = v == kVectors - 1 ? load(bias + v * kLanes, last) : load(bias + v * kLanes);
  }
  const auto some = [&]<int kSome>() __attribute__((always_inline)) {
    RegisterTile<false, true, kSome / kVectors, kVectors> tile{
        {}, 0, 0, reinterpret_cast<char*>(out), 2 * stride, last, {}};
    F32 x[kSome];
#pragma GCC unroll 4
    for (int i = 0; i < kSome; ++i) x[i] = load(from + i * kLanes) + add[i % kVectors];
    silu_groups<0>(a, x);
    tile.each([&](F32& to, int r, int v)
                  __attribute__((always_inline)) { to = x[r * kVectors + v]; });
    tile.store_bf16();
    from += kSome * kLanes;
    out += kSome / kVectors * stride;
  };
  constexpr int kAll = kRows * kVectors, kLeft = kAll % 4;
  for (int i = 0; i < kAll / 4; ++i) some.template operator()<4>();
  if constexpr (kLeft > 0) some.template operator()<kLeft>();
}

template <int kOutputCount, int kVectorCount, bool kCut>
struct DepthwiseBlock {
  static constexpr int kOutputs = kOutputCount, kVectors = kVectorCount;
  static constexpr bool kTail = kCut;  // the last vector may be partial
  template <class X>
  using Sums = std::conditional_t<kTakesPairs<X>, I32, F32>[kOutputs][kVectors];
  int64_t output;   // first
  int64_t channel;  // first
  Mask tail;        // of the last vector
  const DepthwiseEpilogue& epilogue;
};
using WideBlock = DepthwiseBlock<kDepthwiseOutputs, kDepthwiseVectors, false>;
template <class X>
using LongBlock = DepthwiseBlock<kLongOutputs<X>, 1, true>;
using NarrowBlock = DepthwiseBlock<kDepthwiseOutputs, 1, true>;

// Applies the epilogue to a whole block of a widened type and narrows the results.
template <class X, class Block>
inline __attribute__((always_inline)) void apply_narrow(const DepthwiseRow& row, const Block& block,
                                                        typename Block::template Sums<X>& sums) {
  constexpr bool kIntegers = sizeof(X) == 1;
  const SimpleEpilogue& e = *row.epilogue;
  const int64_t column = row.column + block.channel;
  RegisterTile<kIntegers, !kIntegers, Block::kOutputs, Block::kVectors> tile{
      e,
      row.row + block.output - row.begin,
      column,
      output_at(row, block.output, block.channel, static_cast<int64_t>(sizeof(X))),
      row.out_stride,
      block.tail,
      {}};
  if constexpr (kTakesPairs<X>) {
    I32 add[Block::kVectors] = {};
#pragma GCC unroll 2
    for (int v = 0; e.column_compensation != nullptr && v < Block::kVectors; ++v) {
      const int32_t* from = e.column_compensation + column + v * kLanes;
      add[v] = v == Block::kVectors - 1 ? load(from, block.tail) : load(from);
    }
    tile.each([&](F32& x, int t, int v)
                  __attribute__((always_inline)) { x = to_f32(sums[t][v] + add[v]); });
  } else {
    tile.each([&](F32& x, int t, int v) __attribute__((always_inline)) { x = sums[t][v]; });
  }
  if (kIntegers && !kTakesPairs<X> && e.column_compensation != nullptr) {
    I32 add[Block::kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < Block::kVectors; ++v) {
      const int32_t* from = e.column_compensation + column + v * kLanes;
      add[v] = v == Block::kVectors - 1 ? load(from, block.tail) : load(from);
    }
    tile.each([&](F32& x, int, int v)
                  __attribute__((always_inline)) { x = to_f32(to_i32(x) + add[v]); });
  }
  tile.apply_narrow();
}

// Columns of a block that may be outside the input: none; those that only the first or the last
// output reads; any.
enum class Missing : uint8_t { none, sides, any };

// True if column j of a block may be outside the input.
template <int kOutputs, int kKernel, int kStride, Missing kMissing>
constexpr bool may_miss(int j) {
  if (kMissing == Missing::sides) return j < kKernel - 1 || j > (kOutputs - 1) * kStride;
  return kMissing == Missing::any;
}

// Accumulates one kernel row for a block whose first output reads column `first` of x, at `x`.
template <class X, int kKernel, int kStride, Missing kMissing, class Block>
inline __attribute__((always_inline)) void add_row(const DepthwiseRow& row, const Block& block,
                                                   int64_t first, const X* x, const float* w,
                                                   typename Block::template Sums<X>& sums) {
  constexpr int kOutputs = Block::kOutputs, kVectors = Block::kVectors;
  F32 weights[kKernel][kVectors];
#pragma GCC unroll 8
  for (int k = 0; k < kKernel; ++k) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[k][v] = load(w + k * row.w_pitch + v * kLanes);
  }
#pragma GCC unroll 32
  for (int j = 0; j < (kOutputs - 1) * kStride + kKernel; ++j) {
    const bool is_inside = !may_miss<kOutputs, kKernel, kStride, kMissing>(j) ||
                           (first + j >= 0 && first + j < row.input);
    if (is_inside) {
      F32 column[kVectors];
      load_column<X, kVectors, Block::kTail>(row, x + j * row.x_pitch, block.tail, column);
#pragma GCC unroll 16
      for (int t = 0; t < kOutputs; ++t) {
        const int k = j - t * kStride;
        if (k < 0 || k >= kKernel) continue;
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sums[t][v] = fma(column[v], weights[k][v], sums[t][v]);
      }
    }
    __asm__ volatile("" ::: "memory");  // barrier: loads must not move across columns
  }
}

// Any kernel size and dilation: each tap loads its column.
template <class X, Missing kMissing, class Block>
inline __attribute__((always_inline)) void add_taps(const DepthwiseRow& row, const Block& block,
                                                    int64_t first, const X* x, const float* w,
                                                    typename Block::template Sums<X>& sums) {
  constexpr int kVectors = Block::kVectors;
  for (int64_t k = 0; k < row.kernel; ++k) {
    F32 weights[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[v] = load(w + k * row.w_pitch + v * kLanes);
#pragma GCC unroll 16
    for (int t = 0; t < Block::kOutputs; ++t) {
      const int64_t j = t * row.stride + k * row.dilation;
      if (kMissing != Missing::none && (first + j < 0 || first + j >= row.input)) continue;
      F32 column[kVectors];
      load_column<X, kVectors, Block::kTail>(row, x + j * row.x_pitch, block.tail, column);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = fma(column[v], weights[v], sums[t][v]);
    }
  }
}

// kKernel 0: any kernel size and dilation; otherwise stride kStride, dilation 1.
template <class X, int kKernel, int kStride, Missing kMissing, class Block>
inline __attribute__((always_inline)) void depthwise_block(const DepthwiseRow& row,
                                                           const Block& block) {
  constexpr int kOutputs = Block::kOutputs, kVectors = Block::kVectors;
  typename Block::template Sums<X> sums;
#pragma GCC unroll 16
  for (int t = 0; t < kOutputs; ++t) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[t][v] = {};
  }
  const int64_t first = block.output * row.stride - row.pad;
  const int64_t offset = first * row.x_pitch + block.channel;
  const int64_t count = row.end - block.output;
  const int rows = static_cast<int>(count < kOutputs ? count : kOutputs);
  const bool is_whole = rows == kOutputs && kKernel > 0 && block.epilogue.fits;
  alignas(64) X pad[kMissing == Missing::none ? 1 : kVectors * kLanes];
  if (kTakesPairs<X> && kMissing != Missing::none && kKernel > 0)
    __builtin_memset(pad, row.x_zero, sizeof pad);
  const auto add = [&](int64_t r) __attribute__((always_inline)) {
    const X* x = static_cast<const X*>(row.rows[r].x) + offset;
    const float* w = row.rows[r].weights + block.channel;
    if constexpr (kTakesPairs<X>) {
      const auto is_inside = [&](int64_t j) __attribute__((always_inline)) {
        if constexpr (kKernel > 0) {
          if (!may_miss<kOutputs, kKernel, kStride, kMissing>(static_cast<int>(j))) return true;
        }
        return kMissing == Missing::none || (first + j >= 0 && first + j < row.input);
      };
      if constexpr (kKernel > 0) {
        add_row_pairs<X, kKernel, kStride>(row, block, x, w, pad, sums, is_inside);
      } else {
        add_taps_pairs(row, block, x, w, sums, is_inside);
      }
    } else if constexpr (kKernel > 0) {
      add_row<X, kKernel, kStride, kMissing>(row, block, first, x, w, sums);
    } else {
      add_taps<X, kMissing>(row, block, first, x, w, sums);
    }
  };
  if (is_whole)
    prefetch_outputs<kOutputs, kVectors * kLanes * sizeof(X)>(
        row, output_at(row, block.output, block.channel, sizeof(X)));
  for (int64_t r = 0; r < row.row_count; ++r) add(r);
  if constexpr (kTakesPairs<X>) {
#pragma GCC unroll 16
    for (int t = 0; t < kOutputs; ++t) from_pair_order(sums[t]);
  }
  if constexpr (sizeof(X) != 4 && kKernel > 0 && kCutsVectors) {
    if (is_whole && !block.epilogue.has_silu) return apply_narrow<X>(row, block, sums);
  }
  constexpr int64_t kPitch = kVectors * kLanes;
  alignas(64) DepthwiseSum<X> stored[kOutputs * kPitch];
#pragma GCC unroll 16
  for (int t = 0; t < kOutputs; ++t) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (sizeof(X) == 1 && !kTakesPairs<X>) {
        store(stored + t * kPitch + v * kLanes, to_i32(sums[t][v]));
      } else {
        store(stored + t * kPitch + v * kLanes, sums[t][v]);
      }
    }
  }
  if constexpr (kSiluNarrow<X> && kKernel > 0) {
    if (is_whole) {
      const float* bias = block.epilogue.bias;
      return silu_narrow<kOutputs, kVectors>(
          stored, reinterpret_cast<Bf16*>(output_at(row, block.output, block.channel, 2)),
          row.out_stride / 2, block.epilogue.a, bias == nullptr ? nullptr : bias + block.channel,
          block.tail);
    }
  }
  apply_epilogue<X>(row, stored, kPitch, rows, block.output, block.channel);
}

// Not inlined: leaves registers for addresses. Narrow blocks are too short for a call.
template <class X, int kKernel, int kStride, Missing kMissing>
__attribute__((noinline)) void wide_block(const DepthwiseRow& row, const WideBlock& block) {
  depthwise_block<X, kKernel, kStride, kMissing>(row, block);
}

// Any kernel size, for few outputs or wide padding.
template <class X>
__attribute__((noinline)) void any_block(const DepthwiseRow& row, const NarrowBlock& block) {
  depthwise_block<X, 0, 0, Missing::any>(row, block);
}

// Columns outside the input for a block of `outputs` outputs.
template <int kKernel>
inline Missing missing(const DepthwiseRow& row, int64_t output, int64_t outputs) {
  if (output + outputs > row.end) return Missing::any;
  const int64_t first = output * row.stride - row.pad;
  const int64_t last = first + (outputs - 1) * row.stride;
  if (first >= 0 && last + (row.kernel - 1) * row.dilation < row.input) return Missing::none;
  if (kKernel > 0 && first + kKernel > 0 && last < row.input) return Missing::sides;
  return Missing::any;
}

// Computes all whole groups of vectors of a block of outputs; they are contiguous in x and y.
template <class X, int kKernel, int kStride>
void wide_channels(const DepthwiseRow& row, const DepthwiseEpilogue& epilogue, int64_t output) {
  constexpr int kWide = kDepthwiseVectors * kLanes;
  const Missing what = missing<kKernel>(row, output, kDepthwiseOutputs);
  for (int64_t c = 0; c + kWide <= row.channels; c += kWide) {
    const WideBlock block{output, c, mask_first(kLanes), epilogue};
    if constexpr (sizeof(X) != 4) {
      if (what == Missing::none) {
        wide_block<X, kKernel, kStride, Missing::none>(row, block);
        continue;
      }
      if (what == Missing::sides) {
        wide_block<X, kKernel, kStride, Missing::sides>(row, block);
        continue;
      }
    }
    wide_block<X, 0, 0, Missing::any>(row, block);
  }
}

// Computes the remaining vectors of kLongOutputs outputs, or of those left in the row.
template <class X, int kKernel, int kStride>
void other_channels(const DepthwiseRow& row, const DepthwiseEpilogue& epilogue, int64_t output) {
  constexpr int kWide = kDepthwiseVectors * kLanes;
  const Missing what = missing<kKernel>(row, output, kLongOutputs<X>);
  const int64_t begin = row.channels / kWide * kWide;
  for (int64_t c = begin; c < row.channels; c += kLanes) {
    const int64_t left = row.channels - c;
    const Mask mask = mask_first(left < kLanes ? left : kLanes);
    const LongBlock<X> block{output, c, mask, epilogue};
    if constexpr (sizeof(X) != 4) {
      if (what == Missing::none) {
        depthwise_block<X, kKernel, kStride, Missing::none>(row, block);
        continue;
      }
      if (what == Missing::sides) {
        depthwise_block<X, kKernel, kStride, Missing::sides>(row, block);
        continue;
      }
    }
    for (int64_t o = output; o < row.end && o < output + kLongOutputs<X>; o += kDepthwiseOutputs)
      any_block<X>(row, NarrowBlock{o, c, mask, epilogue});
  }
}

template <class X, int kKernel, int kStride>
void depthwise_columns(const DepthwiseRow& row) {
  constexpr int kWide = kDepthwiseVectors * kLanes;
  const int64_t blocks = (row.end - row.begin + kDepthwiseOutputs - 1) / kDepthwiseOutputs;
  const DepthwiseEpilogue epilogue = depthwise_epilogue<X>(row);
  if constexpr (sizeof(X) == 4 && kKernel > 0) {
    if (has_float_blocks<kKernel, kStride>(row)) return float_row<kKernel, kStride>(row, epilogue);
  }
  MemoryPrefetcher input(row.to_read, blocks);
  MemoryPrefetcher output(row.to_write, blocks);
  const bool prefetches = row.to_read.bytes + row.to_write.bytes > 0;
  // The last block is full and recomputes some outputs, unless it would overwrite a residual.
  const bool repeats = row.epilogue == nullptr || row.epilogue->residual == nullptr;
  const auto begin_of = [&](int64_t output, int64_t outputs) {
    const int64_t last = row.end - outputs;
    return repeats && last >= row.begin && last < output ? last : output;
  };
  for (int64_t begin = row.begin; begin < row.end; begin += kLongOutputs<X>) {
    for (int64_t o = begin; o < row.end && o < begin + kLongOutputs<X>; o += kDepthwiseOutputs) {
      if (prefetches) {
        input.prefetch();
        output.prefetch();
      }
      if (row.channels >= kWide)
        wide_channels<X, kKernel, kStride>(row, epilogue, begin_of(o, kDepthwiseOutputs));
    }
    if (row.channels % kWide != 0)
      other_channels<X, kKernel, kStride>(row, epilogue, begin_of(begin, kLongOutputs<X>));
  }
}

template <class X>
void depthwise_row(const DepthwiseRow& row) {
  if (row.dilation == 1 && row.kernel == 3 && row.stride == 1)
    return depthwise_columns<X, 3, 1>(row);
  if (row.dilation == 1 && row.kernel == 3 && row.stride == 2)
    return depthwise_columns<X, 3, 2>(row);
  if (row.dilation == 1 && row.kernel == 5 && row.stride == 1)
    return depthwise_columns<X, 5, 1>(row);
  if (row.dilation == 1 && row.kernel == 5 && row.stride == 2)
    return depthwise_columns<X, 5, 2>(row);
  depthwise_columns<X, 0, 0>(row);
}

}  // namespace
}  // namespace lathe::cpu
