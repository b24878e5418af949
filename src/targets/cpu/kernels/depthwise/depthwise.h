// SPDX-License-Identifier: MIT
// Depthwise convolution: groups = channels = outputs, so there is no GEMM.
#pragma once

#include <vector>

#include "targets/cpu/kernels/conv/conv_epilogue.h"
#include "targets/cpu/kernels/conv/convolution.h"
#include "targets/cpu/kernels/conv/padded_input.h"
#include "targets/cpu/kernels/depthwise/depthwise_row.h"

namespace lathe::cpu {

std::string why_not_depthwise(const ConvProblem& problem, Isa isa);

// Packed weights: f32 [kernel positions][channels rounded up], minus zero points. Int8 pairs
// replace each f32 by two int16: the tap and the next one.
class DepthwiseConvolution final : public Convolution {
 public:
  static constexpr int64_t kChannels = 32;  // per pass over the rows of a chunk

  DepthwiseConvolution(const ConvProblem& problem, Isa isa);
  std::string packing_id() const override;
  size_t packed_bytes() const override;
  void pack(const ConvWeights& weights, void* to, ThreadPool* pool) const override;
  void run(const ConvCall& call) const override;
  IntegerTerms terms(const ConvCall& call) const;  // empty for f32 accumulators

  // Output rows d, h to h + count of one image, with columns begin to end and channels from
  // `channel`. sum_rows calls `finish` for each, with accumulators [columns][kChannels].
  struct OutputRows {
    int64_t d = 0, h = 0, count = 0, begin = 0, end = 0, channel = 0, channels = 0;
    bool prefetch = true;          // y is not cached: prefetch one row further
    bool continues = false;        // more rows follow these
    DepthwisePrefetch to_write{};  // written after these rows; prefetched
    DepthwisePrefetch to_read{};   // read after these rows; prefetched in place of x
  };
  // Rows of x, channels-last. The first one is (d, h); each d has `plane` rows.
  struct Source {
    const std::byte* x = nullptr;
    int64_t d = 0, h = 0, plane = 0;
    int64_t channel = 0, channel_pitch = 0;  // first channel in memory and their number; 0: all
    bool prefetch = true;                    // x is not cached: prefetch one row further
    int64_t next = -1;                       // output row whose x the last row prefetches; -1: none
    int64_t ring = 0;                        // ring buffer length in rows; 0: none
  };
  template <class Finish>
  void sum_rows(const OutputRows& out_rows, const Source& source, const float* weights,
                int32_t x_zero, void* sums, const Finish& finish) const {
    DepthwiseRow row;
    row.out = sums;
    row.sums_pitch = kChannels;
    each_output_row(out_rows, source, weights, x_zero, row,
                    [&](int64_t i, const DepthwiseRow& ready) {
                      kernel_(ready);
                      finish(i, sums);
                    });
  }
  // sum_rows with an epilogue, stored to `out`: the first channel is out_rows.channel. Output rows
  // are `row_stride` bytes apart, columns `out_stride`. `position` is that of the first output.
  void compute_rows(const OutputRows& out_rows, const Source& source, const float* weights,
                    int32_t x_zero, const SimpleEpilogue& epilogue, int64_t position, void* out,
                    int64_t row_stride, int64_t out_stride) const;

 private:
  struct Chunk {
    int64_t d = 0, h = 0, rows = 0, begin = 0, end = 0;
  };
  class Run;
  int64_t pitch() const { return (p_.channels + kChannels - 1) / kChannels * kChannels; }
  bool takes_pairs() const;
  void make_pairs(float* packed) const;
  ConvBox box(const Chunk& chunk) const;
  DepthwisePrefetch next_input_rows(const OutputRows& out_rows, const Source& source,
                                    int64_t i) const;
  template <class F>
  void each_output_row(const OutputRows& out_rows, const Source& source, const float* weights,
                       int32_t x_zero, DepthwiseRow& row, const F& f) const;

  ConvProblem p_;
  Isa isa_;
  ComputeDepthwiseRow kernel_;
  PaddedInput padded_;
  std::vector<Chunk> chunks_;  // of one image
  size_t scratch_box_ = 0, scratch_sums_ = 0;
};

template <class F>
void DepthwiseConvolution::each_output_row(const OutputRows& out_rows, const Source& source,
                                           const float* weights, int32_t x_zero, DepthwiseRow& row,
                                           const F& f) const {
  const auto& [depth, height, width] = p_.axes;
  const int64_t channel_pitch = source.channel_pitch == 0 ? p_.channels : source.channel_pitch;
  const int64_t row_bytes = width.input * channel_pitch * padded_.element_bytes;
  constexpr size_t kSmallKernelRows = 16;
  DepthwiseTapRow few_rows[kSmallKernelRows];
  std::vector<DepthwiseTapRow> many;
  const auto most = static_cast<size_t>(depth.kernel * height.kernel);
  if (most > kSmallKernelRows) many.resize(most);
  DepthwiseTapRow* rows = most > kSmallKernelRows ? many.data() : few_rows;
  row.rows = rows;
  row.kernel = width.kernel;
  row.stride = width.stride;
  row.dilation = width.dilation;
  row.pad = width.pad;
  row.input = width.input;
  row.begin = out_rows.begin;
  row.end = out_rows.end;
  row.channels = out_rows.channels;
  row.x_pitch = channel_pitch;
  row.w_pitch = pitch();
  row.x_zero = x_zero;
  for (int64_t i = 0; i < out_rows.count; ++i) {
    size_t count = 0;
    for (int64_t a = 0; a < depth.kernel; ++a) {
      const int64_t d = out_rows.d * depth.stride + a * depth.dilation - depth.pad;
      if (d < 0 || d >= depth.input) continue;
      for (int64_t b = 0; b < height.kernel; ++b) {
        const int64_t h = (out_rows.h + i) * height.stride + b * height.dilation - height.pad;
        if (h < 0 || h >= height.input) continue;
        int64_t at = (d - source.d) * source.plane + h - source.h;
        if (source.ring != 0) at %= source.ring;
        rows[count++] = {
            source.x + at * row_bytes + (out_rows.channel - source.channel) * padded_.element_bytes,
            weights + (a * height.kernel + b) * width.kernel * pitch() + out_rows.channel};
      }
    }
    row.row_count = static_cast<int64_t>(count);
    const auto share = [&](const DepthwisePrefetch& of) -> DepthwisePrefetch {
      return {of.at + of.bytes * i / out_rows.count, of.bytes / out_rows.count};
    };
    row.to_read =
        out_rows.to_read.bytes > 0 ? share(out_rows.to_read) : next_input_rows(out_rows, source, i);
    row.to_write = share(out_rows.to_write);
    f(i, row);
  }
}

}  // namespace lathe::cpu
