// SPDX-License-Identifier: MIT
// Depthwise convolution over rows: channels are lanes, a block of outputs is held in registers, and
// each input column is read once per kernel row for all outputs that see it.
#pragma once

#include <type_traits>

#include "targets/cpu/kernels/depthwise_pairs.h"
#include "targets/cpu/kernels/depthwise_row.h"
#include "targets/cpu/kernels/epilogue_registers.h"
#include "targets/cpu/kernels/epilogue_simple_kernel.h"
#include "targets/cpu/kernels/epilogue_table.h"

namespace lathe::cpu {
namespace {

// A block's outputs and vectors of channels: sums, one row of weights and a column fit registers.
constexpr int kDepthwiseOutputs = 7;
constexpr int kDepthwiseVectors = kRegisters == 32 ? 2 : 1;
// Of one vector: each column is widened for more of them. Floats, which need not be, come more
// evenly from far caches in short blocks.
template <class X>
constexpr int kLongOutputs = kRegisters == 32 && sizeof(X) != 4 ? 14 : 7;

// Channels of one column; only the last vector of a row may be cut.
template <class X, int kVectors, bool kTail>
inline void load_column(const DepthwiseRow& row, const X* x, Mask tail, F32 (&to)[kVectors]) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    const bool is_cut = kTail && v == kVectors - 1;
    if constexpr (sizeof(X) == 1) {
      // Subtracted from integers: more of the processor's ports do that than subtract floats.
      const I32 number = is_cut ? load_i32(x + v * kLanes, tail) : load_i32(x + v * kLanes);
      to[v] = to_f32(number - set1(row.x_zero));
    } else {
      to[v] = is_cut ? load_f32(x + v * kLanes, tail) : load_f32(x + v * kLanes);
    }
  }
}

#if defined(__AVX512F__)
constexpr FinishTile kFinishSums = finish_tile_avx512;
#else
constexpr FinishTile kFinishSums = finish_tile_avx2;
#endif

// Numbers of sums in memory: of bytes they are integers.
template <class X>
using DepthwiseSum = std::conditional_t<sizeof(X) == 1, int32_t, float>;

// Sums of `rows` outputs from `output` on, `pitch` channels or those that there are. Out of line:
// the kernels of all sizes share it.
template <class X>
__attribute__((noinline)) void finish_sums(const DepthwiseRow& row, const DepthwiseSum<X>* sums,
                                           int64_t pitch, int rows, int64_t output,
                                           int64_t channel) {
  const int64_t line = output - row.begin, left = row.channels - channel;
  const int64_t columns = left < pitch ? left : pitch;
  if (row.epilogue == nullptr) {
    auto* out = static_cast<DepthwiseSum<X>*>(row.out) + line * row.sums_pitch + channel;
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
  tile.row = row.row + line;
  tile.column = row.column + channel;
  tile.out = static_cast<char*>(row.out) + line * row.out_stride + channel * out_size(e.out);
  tile.out_stride = row.out_stride;
  if (row.out_ahead != 0) {
    for (int r = 0; r < rows; ++r)
      _mm_prefetch(static_cast<const char*>(tile.out) + r * row.out_stride + row.out_ahead,
                   _MM_HINT_T1);
  }
  kFinishSums(epilogue, tile);
}

// What most layers do to sums: bias, and relu, hard swish or silu, where the sums are; of numbers
// that were widened, what finish_narrow does, or silu.
struct DepthwiseShort {
  bool fits = false;
  bool has_hard_swish = false;
  bool has_silu = false;
  const float* bias = nullptr;  // none: null
  float low = 0;                // of relu; else -infinity, which leaves everything as it is
  float a = 0;                  // of silu
};
// Whether silu_narrow is there for it.
template <class X>
constexpr bool kSiluNarrow = sizeof(X) == 2 && kCutsVectors;
template <class X>
inline DepthwiseShort short_epilogue(const DepthwiseRow& row) {
  DepthwiseShort to;
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
      e->column_add != nullptr) {
    return to;
  }
  to.has_hard_swish = e->has_activation && e->activation == Activation::hard_swish;
  to.has_silu = e->has_activation && e->activation == Activation::silu;
  to.fits = !e->has_activation || is_relu(*e) || to.has_hard_swish || to.has_silu;
  if (e->bias != nullptr) to.bias = e->bias + row.column;
  to.low = is_relu(*e) ? 0.0F : -__builtin_inff();
  to.a = e->a;
  return to;
}

// Of kRows rows at `from`, side by side, to `out`: long enough that stores and loads cost little,
// and one place for all sizes of kernels.
template <int kRows, int kVectors>
__attribute__((noinline)) void silu_stored(const float* from, float* out, int64_t stride, float a) {
  constexpr int kSome = kDepthwiseOutputs;  // vectors at a time: a block has once or twice so many
  static_assert(kRows * kVectors % kSome == 0);
  for (int first = 0; first < kRows * kVectors; first += kSome) {
    F32 x[kSome];
#pragma GCC unroll 8
    for (int i = 0; i < kSome; ++i) x[i] = load(from + (first + i) * kLanes);
    silu_some<0>(a, x);
#pragma GCC unroll 8
    for (int i = 0; i < kSome; ++i) {
      const int at = first + i;
      store(out + at / kVectors * stride + at % kVectors * kLanes, x[i]);
    }
  }
}

// The same of sums that become bf16: bias, silu and rounding at once; of the last vector of a row,
// the lanes of `last`. Four vectors at a time, and two at the end: pairs of them are stored
// together.
template <int kRows, int kVectors>
__attribute__((noinline)) void silu_narrow(const float* from, Bf16* out, int64_t stride, float a,
                                           const float* bias, Mask last) {
  F32 add[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    add[v] = set1(-0.0F);  // which changes no number
    if (bias == nullptr) continue;
    add[v] = v == kVectors - 1 ? load(bias + v * kLanes, last) : load(bias + v * kLanes);
  }
  const auto some = [&]<int kSome>() __attribute__((always_inline)) {
    RegisterTile<false, true, kSome / kVectors, kVectors> tile{
        {}, 0, 0, reinterpret_cast<char*>(out), 2 * stride, last, {}};
    F32 x[kSome];
#pragma GCC unroll 4
    for (int i = 0; i < kSome; ++i) x[i] = load(from + i * kLanes) + add[i % kVectors];
    silu_some<0>(a, x);
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

// Outputs of a block as they come, so that their stores hide behind the products of those after
// them; `tail` tells which lanes of the last vector count, if not all.
template <int kVectors, bool kTail>
struct ShortFinish {
  const DepthwiseShort& to;
  float* out;
  int64_t stride;
  Mask tail;
  F32 low, bias[kVectors];

  ShortFinish(const DepthwiseShort& epilogue, int64_t channel, Mask mask, float* first_out,
              int64_t out_stride)
      : to(epilogue), out(first_out), stride(out_stride), tail(mask), low(set1(epilogue.low)) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      bias[v] = set1(-0.0F);  // which changes no number, not even zeros
      if (to.bias == nullptr) continue;
      const float* from = to.bias + channel + v * kLanes;
      bias[v] = is_cut(v) ? load(from, tail) : load(from);
    }
  }
  static constexpr bool is_cut(int v) { return kTail && v == kVectors - 1; }
  inline __attribute__((always_inline)) void operator()(int output, const F32 (&sums)[kVectors]) {
    F32 x[kVectors];
    float* at = out + output * stride;
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) x[v] = max(low, sums[v] + bias[v]);
    if (to.has_hard_swish) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) x[v] = hard_swish(x[v]);
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      is_cut(v) ? store(at + v * kLanes, x[v], tail) : store(at + v * kLanes, x[v]);
    }
  }
};

template <int kOutputCount, int kVectorCount, bool kCut>
struct DepthwiseBlock {
  static constexpr int kOutputs = kOutputCount, kVectors = kVectorCount;
  static constexpr bool kTail = kCut;  // the last vector may be a part of one
  template <class X>
  using Sums = std::conditional_t<kTakesPairs<X>, I32, F32>[kOutputs][kVectors];
  int64_t output;   // first
  int64_t channel;  // first
  Mask tail;        // of the last vector
  const DepthwiseShort& epilogue;
};
using WideBlock = DepthwiseBlock<kDepthwiseOutputs, kDepthwiseVectors, false>;
template <class X>
using LongBlock = DepthwiseBlock<kLongOutputs<X>, 1, true>;
using NarrowBlock = DepthwiseBlock<kDepthwiseOutputs, 1, true>;

// Asks for what a block writes, of numbers of kSize bytes.
template <class Block, int kSize>
inline __attribute__((always_inline)) void expect_outputs(const DepthwiseRow& row, char* out) {
  if (!row.out_is_far) return;
#pragma GCC unroll 16
  for (int t = 0; t < Block::kOutputs; ++t) {
#pragma GCC unroll 2
    for (int at = 0; at < Block::kVectors * kLanes * kSize; at += 64) {
      // A store that misses keeps all stores behind it waiting.
      __builtin_prefetch(out + t * row.out_stride + at, 1);
      _mm_prefetch(out + t * row.out_stride + at + row.out_ahead, _MM_HINT_T1);
    }
  }
}

template <class Block>
inline char* output_at(const DepthwiseRow& row, const Block& block, int64_t size) {
  return static_cast<char*>(row.out) + (block.output - row.begin) * row.out_stride +
         block.channel * size;
}

// Sums of a whole block of numbers that were widened, which become such numbers again.
template <class X, class Block>
inline __attribute__((always_inline)) void finish_narrow(const DepthwiseRow& row,
                                                         const Block& block,
                                                         typename Block::template Sums<X>& sums) {
  constexpr bool kIntegers = sizeof(X) == 1;
  const SimpleEpilogue& e = *row.epilogue;
  const int64_t column = row.column + block.channel;
  RegisterTile<kIntegers, !kIntegers, Block::kOutputs, Block::kVectors> tile{
      e,
      row.row + block.output - row.begin,
      column,
      output_at(row, block, static_cast<int64_t>(sizeof(X))),
      row.out_stride,
      block.tail,
      {}};
  if constexpr (kTakesPairs<X>) {
    I32 add[Block::kVectors] = {};
#pragma GCC unroll 2
    for (int v = 0; e.column_add != nullptr && v < Block::kVectors; ++v) {
      const int32_t* from = e.column_add + column + v * kLanes;
      add[v] = v == Block::kVectors - 1 ? load(from, block.tail) : load(from);
    }
    tile.each([&](F32& x, int t, int v)
                  __attribute__((always_inline)) { x = to_f32(sums[t][v] + add[v]); });
  } else {
    tile.each([&](F32& x, int t, int v) __attribute__((always_inline)) { x = sums[t][v]; });
  }
  if (kIntegers && !kTakesPairs<X> && e.column_add != nullptr) {
    I32 add[Block::kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < Block::kVectors; ++v) {
      const int32_t* from = e.column_add + column + v * kLanes;
      add[v] = v == Block::kVectors - 1 ? load(from, block.tail) : load(from);
    }
    tile.each([&](F32& x, int, int v)
                  __attribute__((always_inline)) { x = to_f32(to_i32(x) + add[v]); });
  }
  tile.finish_narrow();
}

// Which columns that a block reads may not be there: none; those that its first or last output
// does not see; any.
enum class Missing : uint8_t { none, sides, any };

// Whether to look for column j of a block.
template <int kOutputs, int kKernel, int kStride, Missing kMissing>
constexpr bool may_miss(int j) {
  if (kMissing == Missing::sides) return j < kKernel - 1 || j > (kOutputs - 1) * kStride;
  return kMissing == Missing::any;
}

struct NoFinish {
  template <int kVectors>
  void operator()(int, const F32 (&)[kVectors]) {}
};

// Adds one row of the kernel to the sums of a block whose first output sees column `first` of x at
// `x`; `finish(t, sums)` follows the last column that output t sees.
template <class X, int kKernel, int kStride, Missing kMissing, class Block, class Finish>
inline __attribute__((always_inline)) void add_row(const DepthwiseRow& row, const Block& block,
                                                   int64_t first, const X* x, const float* w,
                                                   typename Block::template Sums<X>& sums,
                                                   Finish&& finish) {
  constexpr int kOutputs = Block::kOutputs, kVectors = Block::kVectors;
  F32 weights[kKernel][kVectors];
#pragma GCC unroll 8
  for (int k = 0; k < kKernel; ++k) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[k][v] = load(w + k * row.w_pitch + v * kLanes);
  }
#pragma GCC unroll 32
  for (int j = 0; j < (kOutputs - 1) * kStride + kKernel; ++j) {
    const bool is_there = !may_miss<kOutputs, kKernel, kStride, kMissing>(j) ||
                          (first + j >= 0 && first + j < row.input);
    if (is_there) {
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
    __asm__ volatile("" ::: "memory");  // no load moves to another column: registers are taken
    const int done = j - (kKernel - 1);
    if (done >= 0 && done % kStride == 0) finish(done / kStride, sums[done / kStride]);
  }
}

// Any kernel and dilation, each tap read on its own.
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

// kKernel 0: any kernel and dilation; else stride kStride, dilation 1.
template <class X, int kKernel, int kStride, Missing kMissing, class Block>
inline __attribute__((always_inline)) void depthwise_block(const DepthwiseRow& row,
                                                           const Block& block) {
  constexpr int kOutputs = Block::kOutputs, kVectors = Block::kVectors;
  constexpr bool kTail = Block::kTail;
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
  const bool is_cut = kTail && block.channel + kVectors * kLanes > row.channels;
  const bool is_whole = rows == kOutputs && kKernel > 0 && block.epilogue.fits;
  const bool is_short =
      sizeof(X) == 4 && is_whole && row.row_count > 0 && !(is_cut && block.epilogue.has_silu);
  alignas(64) X pad[kMissing == Missing::none ? 1 : kVectors * kLanes];
  if (kTakesPairs<X> && kMissing != Missing::none && kKernel > 0)
    __builtin_memset(pad, row.x_zero, sizeof pad);
  const auto add = [&](int64_t r, auto&& finish) __attribute__((always_inline)) {
    const X* x = static_cast<const X*>(row.rows[r].x) + offset;
    const float* w = row.rows[r].weights + block.channel;
    if constexpr (kTakesPairs<X>) {
      const auto is_there = [&](int64_t j) __attribute__((always_inline)) {
        if constexpr (kKernel > 0) {
          if (!may_miss<kOutputs, kKernel, kStride, kMissing>(static_cast<int>(j))) return true;
        }
        return kMissing == Missing::none || (first + j >= 0 && first + j < row.input);
      };
      if constexpr (kKernel > 0) {
        add_row_pairs<X, kKernel, kStride>(row, block, x, w, pad, sums, is_there);
      } else {
        add_taps_pairs(row, block, x, w, sums, is_there);
      }
    } else if constexpr (kKernel > 0) {
      add_row<X, kKernel, kStride, kMissing>(row, block, first, x, w, sums, finish);
    } else {
      add_taps<X, kMissing>(row, block, first, x, w, sums);
    }
  };
  if (is_whole) expect_outputs<Block, sizeof(X)>(row, output_at(row, block, sizeof(X)));
  for (int64_t r = 0; r + is_short < row.row_count; ++r) add(r, NoFinish{});
  if constexpr (sizeof(X) == 4 && kKernel > 0) {
    if (is_short) {
      auto* out = reinterpret_cast<float*>(output_at(row, block, 4));
      const int64_t stride = row.out_stride / 4;
      // What silu comes after waits in the first cache, where results may not be yet.
      alignas(64) float kept[kOutputs * kVectors * kLanes];
      const bool keeps = block.epilogue.has_silu;
      ShortFinish<kVectors, kTail> finish(block.epilogue, block.channel, block.tail,
                                          keeps ? kept : out, keeps ? kVectors * kLanes : stride);
      add(row.row_count - 1, finish);
      if (keeps) silu_stored<kOutputs, kVectors>(kept, out, stride, block.epilogue.a);
      return;
    }
  }
  if constexpr (kTakesPairs<X>) {
#pragma GCC unroll 16
    for (int t = 0; t < kOutputs; ++t) from_pair_order(sums[t]);
  }
  if constexpr (sizeof(X) != 4 && kKernel > 0 && kCutsVectors) {
    if (is_whole && !block.epilogue.has_silu) return finish_narrow<X>(row, block, sums);
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
          stored, reinterpret_cast<Bf16*>(output_at(row, block, 2)), row.out_stride / 2,
          block.epilogue.a, bias == nullptr ? nullptr : bias + block.channel, block.tail);
    }
  }
  finish_sums<X>(row, stored, kPitch, rows, block.output, block.channel);
}

// Out of line, which leaves registers for addresses; narrow blocks are too short for that.
template <class X, int kKernel, int kStride, Missing kMissing>
__attribute__((noinline)) void wide_block(const DepthwiseRow& row, const WideBlock& block) {
  depthwise_block<X, kKernel, kStride, kMissing>(row, block);
}

// Few outputs or wide pads: any kernel.
template <class X>
__attribute__((noinline)) void any_block(const DepthwiseRow& row, const NarrowBlock& block) {
  depthwise_block<X, 0, 0, Missing::any>(row, block);
}

// What lies before and behind a block of outputs, if there are so many.
template <int kKernel>
inline Missing missing(const DepthwiseRow& row, int64_t output, int64_t outputs) {
  if (output + outputs > row.end) return Missing::any;
  const int64_t first = output * row.stride - row.pad;
  const int64_t last = first + (outputs - 1) * row.stride;
  if (first >= 0 && last + (row.kernel - 1) * row.dilation < row.input) return Missing::none;
  if (kKernel > 0 && first + kKernel > 0 && last < row.input) return Missing::sides;
  return Missing::any;
}

// A block of outputs, all whole groups of vectors: they lie side by side in x and in the result.
template <class X, int kKernel, int kStride>
void wide_channels(const DepthwiseRow& row, const DepthwiseShort& epilogue, int64_t output) {
  constexpr int kWide = kDepthwiseVectors * kLanes;
  const Missing what = missing<kKernel>(row, output, kDepthwiseOutputs);
  for (int64_t c = 0; c + kWide <= row.channels; c += kWide) {
    const WideBlock block{output, c, mask_first(kLanes), epilogue};
    if (what == Missing::none) {
      wide_block<X, kKernel, kStride, Missing::none>(row, block);
    } else if (what == Missing::sides) {
      wide_block<X, kKernel, kStride, Missing::sides>(row, block);
    } else {
      wide_block<X, 0, 0, Missing::any>(row, block);
    }
  }
}

// The other vectors of kLongOutputs outputs, or of those that a row has.
template <class X, int kKernel, int kStride>
void other_channels(const DepthwiseRow& row, const DepthwiseShort& epilogue, int64_t output) {
  constexpr int kWide = kDepthwiseVectors * kLanes;
  const Missing what = missing<kKernel>(row, output, kLongOutputs<X>);
  for (int64_t c = row.channels / kWide * kWide; c < row.channels; c += kLanes) {
    const int64_t left = row.channels - c;
    const Mask mask = mask_first(left < kLanes ? left : kLanes);
    const LongBlock<X> block{output, c, mask, epilogue};
    if (what == Missing::none) {
      depthwise_block<X, kKernel, kStride, Missing::none>(row, block);
    } else if (what == Missing::sides) {
      depthwise_block<X, kKernel, kStride, Missing::sides>(row, block);
    } else {
      for (int64_t o = output; o < row.end && o < output + kLongOutputs<X>; o += kDepthwiseOutputs)
        any_block<X>(row, NarrowBlock{o, c, mask, epilogue});
    }
  }
}

// Fetches what a row of outputs says, an equal share with each block; into the second cache, like
// all that a line fetches for the next: the first one is full of the lines at hand.
class Fetcher {
 public:
  Fetcher(const DepthwiseAhead& ahead, int64_t blocks)
      : at_(ahead.at), lines_((ahead.bytes + 63) / 64) {
    if (lines_ > 0 && blocks > 0) share_ = (lines_ - 1) / blocks + 1;
  }
  void fetch() {
    const int64_t count = lines_ < share_ ? lines_ : share_;
    for (int64_t i = 0; i < count; ++i, at_ += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at_), _MM_HINT_T1);
    lines_ -= count;
  }

 private:
  const std::byte* at_;
  int64_t lines_;
  int64_t share_ = 0;
};

template <class X, int kKernel, int kStride>
void depthwise_columns(const DepthwiseRow& row) {
  constexpr int kWide = kDepthwiseVectors * kLanes;
  const int64_t blocks = (row.end - row.begin + kDepthwiseOutputs - 1) / kDepthwiseOutputs;
  const DepthwiseShort epilogue = short_epilogue<X>(row);
  Fetcher lines(row.to_read, blocks);
  Fetcher results(row.to_write, blocks);
  const bool fetches = row.to_read.bytes + row.to_write.bytes > 0;
  // The last block has as many outputs as the others, some of them computed twice: not where they
  // may be written over what is added to them.
  const bool repeats = row.epilogue == nullptr || row.epilogue->residual == nullptr;
  const auto begin_of = [&](int64_t output, int64_t outputs) {
    const int64_t last = row.end - outputs;
    return repeats && last >= row.begin && last < output ? last : output;
  };
  for (int64_t begin = row.begin; begin < row.end; begin += kLongOutputs<X>) {
    for (int64_t o = begin; o < row.end && o < begin + kLongOutputs<X>; o += kDepthwiseOutputs) {
      if (fetches) {
        lines.fetch();
        results.fetch();
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
