// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/common/transpose.h"
#include "targets/cpu/kernels/conv/conv_direct_call.h"

namespace lathe::cpu {

IntegerTerms DirectConvolution::pointwise_terms(const ConvCall& call) const {
  if (!has_integer_sums(type_)) return {};
  const Part& part = parts_.at(0);
  const auto* weights = static_cast<const std::byte*>(call.weights);
  const auto* zeros = reinterpret_cast<const int32_t*>(weights + packed_bytes() - sums_bytes());
  IntegerTerms terms = integer_terms(
      call, p_.outputs, part.k, in_place_kernel().a_zero_shift,
      reinterpret_cast<const int32_t*>(weights + panel_bytes_ + panel_stride(part)), zeros);
  check(terms.weight_zero == nullptr, ErrorKind::unsupported,
        "{}: a weight zero point is {}, a fused pair requires 0", original_.text(),
        *std::find_if(zeros, zeros + p_.outputs, [](int32_t zero) { return zero != 0; }));
  return terms;
}

void DirectConvolution::pointwise_rows(const ConvCall& call, const ConvEpilogue& epilogue,
                                       const PointwiseRows& at) const {
  const Part& part = parts_.at(0);
  const BrgemmBlock block{
      at.a, this->panels(static_cast<const std::byte*>(call.weights), part, 0, at.panel)};
  BrgemmCall gemm;
  gemm.blocks = &block;
  gemm.block_count = 1;
  gemm.k = part.k;
  gemm.a_row_stride = part.k * padded_.element_bytes;
  gemm.b_panel_stride = panel_stride(part);
  gemm.a_is_cold = at.a_is_cold;
  gemm.b_is_cold = at.b_is_cold;
  gemm.b_continues = at.b_continues;
  gemm.out_is_cached = at.out_is_cached;
  gemm.prefetch_data = at.prefetch_data;
  gemm.prefetch_bytes = at.prefetch_bytes;
  gemm.rows = at.rows;
  gemm.columns = std::min(at.panels * panel_columns(), p_.outputs - at.panel * panel_columns());
  gemm.out = at.out;
  gemm.out_stride = at.out_stride;
  gemm.epilogue = &epilogue.get();
  gemm.row = at.position;
  gemm.column = at.panel * panel_columns();
  in_place_kernel().run(gemm);
}

// Copies rows `begin` to `end` of the whole box, with depth and height merged.
void DirectConvolution::copy_padded_rows(const void* x, std::byte* to, int64_t begin, int64_t end,
                                         int padding) const {
  PaddedInput padded = padded_;
  padded.padding = padding;
  const int64_t height = padded_box_.extent[1];
  const int64_t row_bytes = padded_box_.extent[2] * p_.channels * padded_.element_bytes;
  const int64_t step = flat_ ? parts_[0].geometry.axes[1].step : 1;
  for (int64_t i = begin; i < end;) {
    const int64_t at = i % height;
    ConvBox box = padded_box_;
    box.begin[0] += i / height;
    box.extent[0] = 1;
    box.begin[1] += step == 1 ? at : at % phase_rows_ * step + at / phase_rows_;
    box.extent[1] = step == 1 ? std::min(end - i, height - at) : 1;
    copy_padded_box(p_, padded, box, x, to + i * row_bytes);
    i += box.extent[1];
  }
}

void DirectConvolution::run(const ConvCall& call) const {
  if (call.x == nullptr) {
    ConvCall placed = call;
    placed.x = &kNothing;
    return run(placed);
  }
  if (for_zeros_ != nullptr && call.x_zero == 0) return for_zeros_->run(call);
  if ((im2col_ && !im2col_chunks_) || pads_image_) return run_prepared(call);
  const auto count = static_cast<int64_t>(chunks_.size());
  const Run run(*this, call, static_cast<const std::byte*>(call.x));
  parallel_for(call.pool, p_.batch * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      run.chunk(i / count, chunks_[static_cast<size_t>(i % count)]);
  });
}

// Per image: im2col or padded copy, then the GEMMs.
void DirectConvolution::run_prepared(const ConvCall& call) const {
  const int64_t size = padded_.element_bytes;
  const int64_t image = original_.input_positions() * original_.channels * size;
  const bool transposes_x = im2col_ && original_.x_layout == ActivationLayout::channels_first;
  const int64_t rows =
      im2col_ ? p_.output_positions() : padded_box_.extent[0] * padded_box_.extent[1];
  const int64_t row = (im2col_ ? 1 : padded_box_.extent[2]) * p_.channels * size;
  const int64_t prepared = (rows * row + kReadPastEnd + 63) / 64 * 64;
  std::byte* memory = thread_scratch(ScratchUse::caller, prepared + (transposes_x ? image : 0));
  const Run run(*this, call, memory);
  const int padding = this->padding(call);
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, row));
  for (int64_t n = 0; n < p_.batch; ++n) {
    const std::byte* x = static_cast<const std::byte*>(call.x) + n * image;
    if (transposes_x) {
      constexpr int64_t kPositions = 4096;
      const int64_t positions = original_.input_positions(), channels = original_.channels;
      parallel_for(call.pool, positions, kPositions, [&](int64_t begin, int64_t end) {
        transpose_matrix(padded_.element_bytes, x + begin * size, positions,
                         memory + prepared + begin * channels * size, channels, channels,
                         end - begin);
      });
      x = memory + prepared;
    }
    parallel_for(call.pool, rows, grain, [&](int64_t begin, int64_t end) {
      if (original_.scales_x) {
        return scaled_rows(x, call.x_factors + n * original_.channels, memory + begin * row, begin,
                           end);
      }
      im2col_ ? im2col_rows(x, memory + begin * row, begin, end, padding)
              : copy_padded_rows(x, memory, begin, end, padding);
    });
    parallel_for(call.pool, static_cast<int64_t>(chunks_.size()), 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     run.chunk(n, chunks_[static_cast<size_t>(i)]);
                 });
  }
}

}  // namespace lathe::cpu
