// SPDX-License-Identifier: MIT
// Depthwise convolution over rows: channels are lanes, a block of outputs is held in registers, and
// each input column is read once per kernel row for all outputs that see it.
#pragma once

#include "targets/cpu/kernels/depthwise_row.h"
#include "targets/cpu/kernels/epilogue_registers.h"
#include "targets/cpu/kernels/epilogue_simple_kernel.h"

namespace lathe::cpu {
namespace {

// Outputs of a block, and vectors of channels: sums, one row of weights and a column fit.
constexpr int kDepthwiseBlock = 7;
constexpr int kDepthwiseVectors = kRegisters == 32 ? 2 : 1;

// Channels of one column; only the last vector of a row may be cut.
template <class X, int kVectors, bool kTail>
inline void load_column(const DepthwiseRow& row, const X* x, Mask tail, F32 (&to)[kVectors]) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    to[v] = kTail && v == kVectors - 1 ? load_f32(x + v * kLanes, tail) : load_f32(x + v * kLanes);
    if constexpr (sizeof(X) == 1) to[v] = to[v] - set1(row.x_zero);
  }
}

// Sums of kRows outputs from `output` on, of one vector of channels. Out of line: the kernels of
// all sizes share it.
template <class X, int kRows>
__attribute__((noinline)) void finish_block(const DepthwiseRow& row, F32 (&x)[kRows], int rows,
                                            int64_t output, int64_t channel, Mask mask,
                                            bool whole) {
  const int64_t line = output - row.begin;
  if (row.epilogue == nullptr) {
    for (int r = 0; r < rows; ++r) {
      const int64_t at = (line + r) * row.sums_pitch + channel;
      if constexpr (sizeof(X) == 1) {
        store(static_cast<int32_t*>(row.out) + at, to_i32(x[r]), mask);
      } else {
        store(static_cast<float*>(row.out) + at, x[r], mask);
      }
    }
    return;
  }
  const SimpleEpilogue& e = *row.epilogue;
  if (sizeof(X) == 1 && e.column_add != nullptr) {
    const I32 add = load(e.column_add + row.column + channel, mask);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) x[r] = to_f32(to_i32(x[r]) + add);
  }
  const int64_t size = e.out == ElementType::f32 ? 4 : e.out == ElementType::bf16 ? 2 : 1;
  char* out = static_cast<char*>(row.out) + line * row.out_stride + channel * size;
  if (row.out_ahead != 0) {
    for (int r = 0; r < rows; ++r)
      _mm_prefetch(out + r * row.out_stride + row.out_ahead, _MM_HINT_T1);
  }
  finish_simple(e, x, rows, row.row + line, row.column + channel, mask, whole, out, row.out_stride);
}

// What most layers do to f32 sums: bias, and relu, hard swish or silu, where the sums are.
struct DepthwiseShort {
  bool fits = false;
  bool has_hard_swish = false;
  bool has_silu = false;
  const float* bias = nullptr;
  float low = 0;  // of relu; else -infinity, which leaves everything as it is
  float a = 0;    // of silu
};
inline DepthwiseShort short_epilogue(const DepthwiseRow& row) {
  DepthwiseShort to;
  const SimpleEpilogue* e = row.epilogue;
  if (e == nullptr || e->out != ElementType::f32 || e->scale != nullptr || e->bias == nullptr ||
      e->residual != nullptr || e->column_add != nullptr) {
    return to;
  }
  to.has_hard_swish = e->has_activation && e->activation == Activation::hard_swish;
  to.has_silu = e->has_activation && e->activation == Activation::silu;
  to.fits = !e->has_activation || is_relu(*e) || to.has_hard_swish || to.has_silu;
  to.bias = e->bias + row.column;
  to.low = is_relu(*e) ? 0.0F : -__builtin_inff();
  to.a = e->a;
  return to;
}

// Of kRows rows at `out`, in place: long enough that stores and loads cost little, and one place
// for all sizes of kernels.
template <int kRows, int kVectors>
__attribute__((noinline)) void silu_stored(float* out, int64_t stride, float a) {
  constexpr int kSome = 4 / kVectors;  // rows at a time
  for (int t = 0; t < kRows; t += kSome) {
    F32 x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const int row = t + i / kVectors < kRows ? t + i / kVectors : kRows - 1;
      x[i] = load(out + row * stride + i % kVectors * kLanes);
    }
    silu_some<0>(a, x);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      if (t + i / kVectors < kRows)
        store(out + (t + i / kVectors) * stride + i % kVectors * kLanes, x[i]);
    }
  }
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

  ShortFinish(const DepthwiseRow& row, const DepthwiseShort& epilogue, int64_t output,
              int64_t channel, Mask mask)
      : to(epilogue),
        out(reinterpret_cast<float*>(static_cast<char*>(row.out) +
                                     (output - row.begin) * row.out_stride) +
            channel),
        stride(row.out_stride / 4),
        tail(mask),
        low(set1(epilogue.low)) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
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

// Sums of two vectors of a whole block of outputs, of numbers that were widened; false if the
// epilogue does more. Out of line, like finish_block.
template <class X>
__attribute__((noinline)) bool finish_two(const DepthwiseRow& row, int64_t output, int64_t channel,
                                          const F32 (&sums)[kDepthwiseBlock][2]) {
  if (row.epilogue == nullptr) return false;
  const SimpleEpilogue& e = *row.epilogue;
  constexpr bool kIntegers = sizeof(X) == 1, kBf16 = sizeof(X) == 2;
  if (!fits_registers<kIntegers, kBf16>(e)) return false;
  const int64_t line = output - row.begin, column = row.column + channel;
  char* out = static_cast<char*>(row.out) + line * row.out_stride + channel * out_size(e.out);
  if (row.out_ahead != 0) {
#pragma GCC unroll 8
    for (int t = 0; t < kDepthwiseBlock; ++t)
      _mm_prefetch(out + t * row.out_stride + row.out_ahead, _MM_HINT_T1);
  }
  RegisterTile<kIntegers, kBf16, kDepthwiseBlock, 2> tile{
      e, row.row + line, column, out, row.out_stride, mask_first(kLanes), {}};
  I32 add[2] = {zero_i32(), zero_i32()};
  const bool adds = kIntegers && e.column_add != nullptr;
  if (adds) {
    add[0] = load(e.column_add + column);
    add[1] = load(e.column_add + column + kLanes);
  }
  tile.each([&](F32& x, int t, int v) __attribute__((always_inline)) {
    x = adds ? to_f32(to_i32(sums[t][v]) + add[v]) : sums[t][v];
  });
  tile.finish();
  return true;
}

template <int kVectors>
struct DepthwiseBlock {
  int64_t output;   // first
  int64_t channel;  // first
  Mask tail;        // of the last vector
  const DepthwiseShort& epilogue;
};

// Which columns that a block reads may not be there: none; those that its first or last output
// does not see; any.
enum class Missing : uint8_t { none, sides, any };

// Whether to look for column j of a block.
template <int kKernel, int kStride, Missing kMissing>
constexpr bool may_miss(int j) {
  if (kMissing == Missing::sides) return j < kKernel - 1 || j > (kDepthwiseBlock - 1) * kStride;
  return kMissing == Missing::any;
}

template <int kVectors>
using DepthwiseSums = F32[kDepthwiseBlock][kVectors];

struct NoFinish {
  template <int kVectors>
  void operator()(int, const F32 (&)[kVectors]) {}
};

// Adds one row of the kernel to the sums of a block whose first output sees column `first` of x at
// `x`; `finish(t, sums)` follows the last column that output t sees.
template <class X, int kKernel, int kStride, int kVectors, bool kTail, Missing kMissing,
          class Finish>
inline __attribute__((always_inline)) void add_row(const DepthwiseRow& row,
                                                   const DepthwiseBlock<kVectors>& block,
                                                   int64_t first, const X* x, const float* w,
                                                   DepthwiseSums<kVectors>& sums, Finish&& finish) {
  constexpr int kOutputs = kDepthwiseBlock;
  F32 weights[kKernel][kVectors];
#pragma GCC unroll 8
  for (int k = 0; k < kKernel; ++k) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[k][v] = load(w + k * row.w_pitch + v * kLanes);
  }
#pragma GCC unroll 32
  for (int j = 0; j < (kOutputs - 1) * kStride + kKernel; ++j) {
    const bool is_there =
        !may_miss<kKernel, kStride, kMissing>(j) || (first + j >= 0 && first + j < row.input);
    if (is_there) {
      F32 column[kVectors];
      load_column<X, kVectors, kTail>(row, x + j * row.x_pitch, block.tail, column);
#pragma GCC unroll 8
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
template <class X, int kVectors, bool kTail, Missing kMissing>
inline __attribute__((always_inline)) void add_taps(const DepthwiseRow& row,
                                                    const DepthwiseBlock<kVectors>& block,
                                                    int64_t first, const X* x, const float* w,
                                                    DepthwiseSums<kVectors>& sums) {
  for (int64_t k = 0; k < row.kernel; ++k) {
    F32 weights[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) weights[v] = load(w + k * row.w_pitch + v * kLanes);
#pragma GCC unroll 8
    for (int t = 0; t < kDepthwiseBlock; ++t) {
      const int64_t j = t * row.stride + k * row.dilation;
      if (kMissing != Missing::none && (first + j < 0 || first + j >= row.input)) continue;
      F32 column[kVectors];
      load_column<X, kVectors, kTail>(row, x + j * row.x_pitch, block.tail, column);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sums[t][v] = fma(column[v], weights[v], sums[t][v]);
    }
  }
}

// kKernel 0: any kernel and dilation; else stride kStride, dilation 1.
template <class X, int kKernel, int kStride, int kVectors, bool kTail, Missing kMissing>
inline __attribute__((always_inline)) void depthwise_block(const DepthwiseRow& row,
                                                           const DepthwiseBlock<kVectors>& block) {
  constexpr int kOutputs = kDepthwiseBlock;
  DepthwiseSums<kVectors> sums;
#pragma GCC unroll 8
  for (int t = 0; t < kOutputs; ++t) {
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sums[t][v] = zero_f32();
  }
  const int64_t first = block.output * row.stride - row.pad;
  const int64_t offset = first * row.x_pitch + block.channel;
  const int64_t count = row.end - block.output;
  const int rows = static_cast<int>(count < kOutputs ? count : kOutputs);
  constexpr bool kMayBeShort = sizeof(X) == 4 && kKernel > 0;
  const bool is_cut = kTail && block.channel + kVectors * kLanes > row.channels;
  const bool is_short = kMayBeShort && block.epilogue.fits && rows == kOutputs &&
                        row.row_count > 0 && !(is_cut && block.epilogue.has_silu);
  const auto add = [&](int64_t r, auto&& finish) __attribute__((always_inline)) {
    const X* x = static_cast<const X*>(row.rows[r].x) + offset;
    const float* w = row.rows[r].weights + block.channel;
    if constexpr (kKernel > 0) {
      add_row<X, kKernel, kStride, kVectors, kTail, kMissing>(row, block, first, x, w, sums,
                                                              finish);
    } else {
      add_taps<X, kVectors, kTail, kMissing>(row, block, first, x, w, sums);
    }
  };
  if (is_short && row.out_is_far) {
    // A store that misses keeps all stores behind it waiting.
    const char* out = static_cast<const char*>(row.out) +
                      (block.output - row.begin) * row.out_stride + block.channel * 4;
#pragma GCC unroll 8
    for (int t = 0; t < kOutputs; ++t) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const char* at = out + t * row.out_stride + v * kLanes * 4;
        __builtin_prefetch(at, 1);
        _mm_prefetch(at + row.out_ahead, _MM_HINT_T1);
      }
    }
  }
  for (int64_t r = 0; r + is_short < row.row_count; ++r) add(r, NoFinish{});
  if constexpr (kMayBeShort) {
    if (is_short) {
      ShortFinish<kVectors, kTail> finish(row, block.epilogue, block.output, block.channel,
                                          block.tail);
      add(row.row_count - 1, finish);
      if (block.epilogue.has_silu)
        silu_stored<kOutputs, kVectors>(finish.out, finish.stride, block.epilogue.a);
      return;
    }
  }
  if constexpr (sizeof(X) != 4 && kVectors == 2) {
    // A copy: numbers whose address is known leave their registers between all operations.
    F32 copy[kOutputs][2];
#pragma GCC unroll 8
    for (int t = 0; t < kOutputs; ++t) {
      copy[t][0] = sums[t][0];
      copy[t][1] = sums[t][1];
    }
    if (rows == kOutputs && finish_two<X>(row, block.output, block.channel, copy)) return;
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) {
    F32 x[kOutputs];
#pragma GCC unroll 8
    for (int t = 0; t < kOutputs; ++t) x[t] = sums[t][v];
    const bool whole = !kTail || v < kVectors - 1;
    finish_block<X>(row, x, rows, block.output, block.channel + v * kLanes,
                    whole ? mask_first(kLanes) : block.tail, whole);
  }
}

// Out of line, which leaves registers for addresses; narrow blocks are too short for that.
template <class X, int kKernel, int kStride, Missing kMissing>
__attribute__((noinline)) void wide_block(const DepthwiseRow& row,
                                          const DepthwiseBlock<kDepthwiseVectors>& block) {
  depthwise_block<X, kKernel, kStride, kDepthwiseVectors, false, kMissing>(row, block);
}

// A block of outputs, all channels: they lie side by side in x and in the result.
template <class X, int kKernel, int kStride, Missing kMissing>
void depthwise_channels(const DepthwiseRow& row, const DepthwiseShort& epilogue, int64_t output) {
  constexpr int kWide = kDepthwiseVectors * kLanes;
  const Mask all = mask_first(kLanes);
  int64_t c = 0;
  for (; c + kWide <= row.channels; c += kWide) {
    const DepthwiseBlock<kDepthwiseVectors> block{output, c, all, epilogue};
    wide_block<X, kKernel, kStride, kMissing>(row, block);
  }
  for (; c < row.channels; c += kLanes) {
    const int64_t left = row.channels - c;
    const DepthwiseBlock<1> block{output, c, mask_first(left < kLanes ? left : kLanes), epilogue};
    depthwise_block<X, kKernel, kStride, 1, true, kMissing>(row, block);
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
  const int64_t span = (kDepthwiseBlock - 1) * row.stride + (row.kernel - 1) * row.dilation + 1;
  const int64_t blocks = (row.end - row.begin + kDepthwiseBlock - 1) / kDepthwiseBlock;
  const DepthwiseShort epilogue = short_epilogue(row);
  Fetcher lines(row.to_read, blocks);
  Fetcher results(row.to_write, blocks);
  const bool fetches = row.to_read.bytes + row.to_write.bytes > 0;
  for (int64_t o = row.begin; o < row.end; o += kDepthwiseBlock) {
    if (fetches) {
      lines.fetch();
      results.fetch();
    }
    const int64_t first = o * row.stride - row.pad;
    const int64_t last = first + (kDepthwiseBlock - 1) * row.stride;
    if (first >= 0 && first + span <= row.input) {
      depthwise_channels<X, kKernel, kStride, Missing::none>(row, epilogue, o);
    } else if (kKernel > 0 && first + kKernel > 0 && last < row.input) {
      depthwise_channels<X, kKernel, kStride, Missing::sides>(row, epilogue, o);
    } else {
      depthwise_channels<X, kKernel, kStride, Missing::any>(row, epilogue, o);
    }
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

constexpr DepthwiseTable kDepthwiseTable{depthwise_row<float>, depthwise_row<Bf16>,
                                         depthwise_row<uint8_t>, depthwise_row<int8_t>};

}  // namespace
}  // namespace lathe::cpu
