// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>

#include "base/error.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/common/transpose.h"
#include "targets/cpu/kernels/conv/conv_direct_call.h"

namespace lathe::cpu {

IntegerTerms DirectConvolution::pointwise_terms(const ConvCall& call) const {
  if (!has_integer_sums(product_)) return {};
  const Part& part = parts_.at(0);
  const auto* weights = static_cast<const std::byte*>(call.weights);
  const auto* zeros = reinterpret_cast<const int32_t*>(weights + packed_bytes() - sums_bytes());
  IntegerTerms terms = integer_terms(
      call, p_.outputs, part.k, in_place_kernel().a_zero_shift,
      reinterpret_cast<const int32_t*>(weights + panel_bytes_ + panel_stride(part)), zeros);
  check(terms.weight_zero == nullptr, ErrorKind::unsupported,
        "{}: a weight zero point is {}, a fused pair requires 0", given_.text(),
        *std::find_if(zeros, zeros + p_.outputs, [](int32_t zero) { return zero != 0; }));
  return terms;
}

void DirectConvolution::pointwise_rows(const ConvCall& call, const ConvEpilogue& epilogue,
                                       const PointwiseRows& at) const {
  const Part& part = parts_.at(0);
  const BrgemmBlock block{
      at.a, this->panels(static_cast<const std::byte*>(call.weights), part, 0, at.panel)};
  BrgemmCall product;
  product.blocks = &block;
  product.block_count = 1;
  product.k = part.k;
  product.a_row_stride = part.k * stage_.element_bytes;
  product.b_panel_stride = panel_stride(part);
  product.a_is_cold = at.a_is_cold;
  product.b_is_cold = at.b_is_cold;
  product.b_goes_on = at.b_goes_on;
  product.out_is_cached = at.out_is_cached;
  product.ahead = at.ahead;
  product.prefetch_bytes = at.prefetch_bytes;
  product.rows = at.rows;
  product.columns = std::min(at.panels * panel_columns(), p_.outputs - at.panel * panel_columns());
  product.out = at.out;
  product.out_stride = at.out_stride;
  product.epilogue = &epilogue.get();
  product.row = at.position;
  product.column = at.panel * panel_columns();
  in_place_kernel().run(product);
}

// Copies rows `begin` to `end` of the whole box, with depth and height merged.
void DirectConvolution::stage_whole(const void* x, std::byte* to, int64_t begin, int64_t end,
                                    int padding) const {
  PaddedInput stage = stage_;
  stage.padding = padding;
  const int64_t height = whole_.extent[1];
  const int64_t line = whole_.extent[2] * p_.channels * stage_.element_bytes;
  const int64_t step = flat_ ? parts_[0].geometry.axes[1].step : 1;
  for (int64_t i = begin; i < end;) {
    const int64_t at = i % height;
    ConvBox box = whole_;
    box.begin[0] += i / height;
    box.extent[0] = 1;
    box.begin[1] += step == 1 ? at : at % phase_lines_ * step + at / phase_lines_;
    box.extent[1] = step == 1 ? std::min(end - i, height - at) : 1;
    stage_box(p_, stage, box, x, to + i * line);
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
  if ((im2col_ && !im2col_chunks_) || padded_whole_) return run_prepared(call);
  const auto count = static_cast<int64_t>(chunks_.size());
  const Run run(*this, call, static_cast<const std::byte*>(call.x));
  parallel_for(call.pool, p_.batch * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      run.chunk(i / count, chunks_[static_cast<size_t>(i % count)]);
  });
}

// Per image: im2col or padded copy, then the GEMMs.
void DirectConvolution::run_prepared(const ConvCall& call) const {
  const int64_t size = stage_.element_bytes;
  const int64_t image = given_.input_positions() * given_.channels * size;
  const bool turn = im2col_ && given_.x_layout == ActivationLayout::channels_first;
  const int64_t rows = im2col_ ? p_.output_positions() : whole_.extent[0] * whole_.extent[1];
  const int64_t row = (im2col_ ? 1 : whole_.extent[2]) * p_.channels * size;
  const int64_t prepared = (rows * row + kAfterPadded + 63) / 64 * 64;
  std::byte* memory = thread_scratch(ScratchUse::caller, prepared + (turn ? image : 0));
  const Run run(*this, call, memory);
  const int padding = this->padding(call);
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, row));
  for (int64_t n = 0; n < p_.batch; ++n) {
    const std::byte* x = static_cast<const std::byte*>(call.x) + n * image;
    if (turn) {
      transpose_matrix(stage_.element_bytes, x, given_.input_positions(), memory + prepared,
                       given_.channels, given_.channels, given_.input_positions());
      x = memory + prepared;
    }
    parallel_for(call.pool, rows, grain, [&](int64_t begin, int64_t end) {
      im2col_ ? gather(x, memory + begin * row, begin, end, padding)
              : stage_whole(x, memory, begin, end, padding);
    });
    parallel_for(call.pool, static_cast<int64_t>(chunks_.size()), 1,
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     run.chunk(n, chunks_[static_cast<size_t>(i)]);
                 });
  }
}

}  // namespace lathe::cpu
