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

  // Output rows d, h to h + rows of one image, with columns begin to end and channels from
  // `channel`. sum_rows calls `finish` for each, with accumulators [columns][kChannels].
  struct Lines {
    int64_t d = 0, h = 0, lines = 0, begin = 0, end = 0, channel = 0, channels = 0;
    bool fetch = true;             // C is not cached: prefetch one row further
    bool goes_on = false;          // more rows follow these
    DepthwisePrefetch to_write{};  // written after these rows; prefetched
    DepthwisePrefetch to_read{};   // read after these rows; prefetched in place of x
  };
  // Rows of x, channels-last. The first one is (d, h); each d has `plane` rows.
  struct Source {
    const std::byte* x = nullptr;
    int64_t d = 0, h = 0, plane = 0;
    int64_t channel = 0, channel_pitch = 0;  // first channel in memory and their number; 0: all
    bool fetch = true;                       // x is not cached: prefetch one row further
    int64_t next = -1;                       // output row whose x the last row prefetches; -1: none
    int64_t ring = 0;                        // ring buffer length in rows; 0: none
  };
  template <class Finish>
  void sum_lines(const Lines& lines, const Source& source, const float* weights, int32_t x_zero,
                 void* sums, const Finish& finish) const {
    DepthwiseRow row;
    row.out = sums;
    row.sums_pitch = kChannels;
    each_line(lines, source, weights, x_zero, row, [&](int64_t line, const DepthwiseRow& ready) {
      kernel_(ready);
      finish(line, sums);
    });
  }
  // sum_rows with an epilogue, stored to `out`: the first channel is out_rows.channel. Output rows
  // are `row_stride` bytes apart, columns `out_stride`. `position` is that of the first output.
  void compute_lines(const Lines& lines, const Source& source, const float* weights, int32_t x_zero,
                     const SimpleEpilogue& epilogue, int64_t position, void* out,
                     int64_t line_stride, int64_t out_stride) const;

 private:
  struct Chunk {
    int64_t d = 0, h = 0, lines = 0, begin = 0, end = 0;
  };
  class Run;
  int64_t pitch() const { return (p_.channels + kChannels - 1) / kChannels * kChannels; }
  bool takes_pairs() const;
  void make_pairs(float* packed) const;
  ConvBox box(const Chunk& chunk) const;
  DepthwisePrefetch ahead_of(const Lines& lines, const Source& source, int64_t line) const;
  template <class F>
  void each_line(const Lines& lines, const Source& source, const float* weights, int32_t x_zero,
                 DepthwiseRow& row, const F& f) const;

  ConvProblem p_;
  Isa isa_;
  ComputeDepthwiseRow kernel_;
  PaddedInput stage_;
  std::vector<Chunk> chunks_;  // of one image
  size_t scratch_box_ = 0, scratch_sums_ = 0;
};

template <class F>
void DepthwiseConvolution::each_line(const Lines& lines, const Source& source, const float* weights,
                                     int32_t x_zero, DepthwiseRow& row, const F& f) const {
  const auto& [depth, height, width] = p_.axes;
  const int64_t there = source.channel_pitch == 0 ? p_.channels : source.channel_pitch;
  const int64_t line_bytes = width.input * there * stage_.element_bytes;
  constexpr size_t kMaxDecodeRows = 16;
  DepthwiseTapRow few[kMaxDecodeRows];
  std::vector<DepthwiseTapRow> many;
  const auto most = static_cast<size_t>(depth.kernel * height.kernel);
  if (most > kMaxDecodeRows) many.resize(most);
  DepthwiseTapRow* rows = most > kMaxDecodeRows ? many.data() : few;
  row.rows = rows;
  row.kernel = width.kernel;
  row.stride = width.stride;
  row.dilation = width.dilation;
  row.pad = width.pad;
  row.input = width.input;
  row.begin = lines.begin;
  row.end = lines.end;
  row.channels = lines.channels;
  row.x_pitch = there;
  row.w_pitch = pitch();
  row.x_zero = x_zero;
  for (int64_t line = 0; line < lines.lines; ++line) {
    size_t count = 0;
    for (int64_t a = 0; a < depth.kernel; ++a) {
      const int64_t d = lines.d * depth.stride + a * depth.dilation - depth.pad;
      if (d < 0 || d >= depth.input) continue;
      for (int64_t b = 0; b < height.kernel; ++b) {
        const int64_t h = (lines.h + line) * height.stride + b * height.dilation - height.pad;
        if (h < 0 || h >= height.input) continue;
        int64_t at = (d - source.d) * source.plane + h - source.h;
        if (source.ring != 0) at %= source.ring;
        rows[count++] = {
            source.x + at * line_bytes + (lines.channel - source.channel) * stage_.element_bytes,
            weights + (a * height.kernel + b) * width.kernel * pitch() + lines.channel};
      }
    }
    row.row_count = static_cast<int64_t>(count);
    const auto share = [&](const DepthwisePrefetch& of) -> DepthwisePrefetch {
      return {of.at + of.bytes * line / lines.lines, of.bytes / lines.lines};
    };
    row.to_read = lines.to_read.bytes > 0 ? share(lines.to_read) : ahead_of(lines, source, line);
    row.to_write = share(lines.to_write);
    f(line, row);
  }
}

}  // namespace lathe::cpu
