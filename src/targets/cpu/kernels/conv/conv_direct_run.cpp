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

// True if the images are rows of one GEMM for this epilogue, too.
bool DirectConvolution::joins_images(const ConvCall& call) const {
  for (size_t i = 0; i < call.epilogue.steps.size(); ++i) {
    const Operand& operand = call.epilogue.steps[i].operand;
    const int64_t image = i < call.operand_images.size() ? call.operand_images[i] : 0;
    if (operand.data != nullptr && image != image_positions_ * operand.row_stride) return false;
  }
  return true;
}

void DirectConvolution::run(const ConvCall& call) const {
  if (call.x == nullptr) {
    ConvCall placed = call;
    placed.x = &kNothing;
    return run(placed);
  }
  if (by_image_ != nullptr && !joins_images(call)) return by_image_->run(call);
  if (for_zeros_ != nullptr && call.x_zero == 0) return for_zeros_->run(call);
  if ((im2col_ && !im2col_chunks_) || pads_image_) return run_prepared(call);
  const auto* x = static_cast<const std::byte*>(call.x);
  const int64_t image = image_bytes(), images = p_.batch;
  const auto count = static_cast<int64_t>(chunks_.size());
  const bool by_chunks = has_large_weights();
  const Run run(*this, call);
  parallel_for(call.pool, images * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = by_chunks ? i % images : i / count;
      run.chunk(n, x + n * image, chunks_[static_cast<size_t>(by_chunks ? i / images : i % count)]);
    }
  });
}

// im2col or padded copies of images, then the GEMMs.
void DirectConvolution::run_prepared(const ConvCall& call) const {
  const int64_t size = padded_.element_bytes, image = image_bytes();
  const bool transposes_x = im2col_ && original_.x_layout == ActivationLayout::channels_first;
  const int64_t rows =
      im2col_ ? p_.output_positions() : padded_box_.extent[0] * padded_box_.extent[1];
  const int64_t row = (im2col_ ? 1 : padded_box_.extent[2]) * p_.channels * size;
  const int64_t prepared = (rows * row + kReadPastEnd + 63) / 64 * 64;
  const int64_t count = std::ssize(chunks_),
                threads = call.pool == nullptr ? 1 : call.pool->threads();
  const int padding = this->padding(call);
  const Run run(*this, call);
  // Where rows of an image are read: its x, or a channels-last copy after what is prepared.
  const auto find_x = [&](int64_t n, std::byte* memory, ThreadPool* pool) {
    const std::byte* x = static_cast<const std::byte*>(call.x) + n * image;
    if (!transposes_x) return x;
    constexpr int64_t kPositions = 4096;
    const int64_t positions = original_.input_positions(), channels = original_.channels;
    std::byte* to = memory + prepared;
    parallel_for(pool, positions, kPositions, [&](int64_t begin, int64_t end) {
      transpose_matrix(padded_.element_bytes, x + begin * size, positions,
                       to + begin * channels * size, channels, channels, end - begin);
    });
    return static_cast<const std::byte*>(to);
  };
  const auto prepare = [&](int64_t n, const std::byte* x, std::byte* to, int64_t begin,
                           int64_t end) {
    if (original_.scales_x) {
      scaled_rows(x, call.x_factors + n * original_.channels, to + begin * row, begin, end);
    } else if (im2col_) {
      im2col_rows(x, to + begin * row, begin, end, padding);
    } else {
      copy_padded_rows(x, to, begin, end, padding);
    }
  };
  const int64_t copied = transposes_x ? image : 0;
  if (p_.batch > 1 && p_.batch % threads == 0 && !has_large_weights()) {
    // Each thread prepares images of its own, which stay in its L2, and waits for none.
    parallel_for(call.pool, p_.batch, 1, [&](int64_t first, int64_t last) {
      std::byte* memory = thread_scratch(ScratchUse::caller, prepared + copied);
      for (int64_t n = first; n < last; ++n) {
        prepare(n, find_x(n, memory, nullptr), memory, 0, rows);
        for (const Chunk& chunk : chunks_) run.chunk(n, memory, chunk);
      }
    });
    return;
  }
  // Weights that exceed a cache are read once for several images.
  const int64_t together = has_large_weights() && !transposes_x
                               ? std::clamp<int64_t>(kMostPrepared / prepared, 1, p_.batch)
                               : 1;
  std::byte* memory = thread_scratch(ScratchUse::caller, together * prepared + copied);
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, row));
  for (int64_t first = 0; first < p_.batch; first += together) {
    const int64_t images = std::min(together, p_.batch - first);
    const std::byte* x = find_x(first, memory, call.pool);
    parallel_for(call.pool, images * rows, grain, [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t i = begin / rows, next = std::min(end, (i + 1) * rows);
        prepare(first + i, x + i * image, memory + i * prepared, begin - i * rows, next - i * rows);
        begin = next;
      }
    });
    parallel_for(call.pool, images * count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        run.chunk(first + i % images, memory + i % images * prepared,
                  chunks_[static_cast<size_t>(i / images)]);
      }
    });
  }
}

}  // namespace lathe::cpu
