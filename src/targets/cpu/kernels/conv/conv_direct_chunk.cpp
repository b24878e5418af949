// SPDX-License-Identifier: MIT
// Computes a chunk of a direct convolution: input, GEMM, epilogue.
#include <algorithm>
#include <cstddef>

#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/common/transpose.h"
#include "targets/cpu/kernels/conv/conv_direct_call.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kSumsInCache = 256 << 10;  // bytes of accumulators between GEMM and epilogue

}  // namespace

struct DirectConvolution::Run::Work {
  // GEMM rows: outputs from (d, h, w) along the width, or along the height for a column.
  struct Rows {
    int64_t d, h, w, count;
    bool is_column;
    const Source* padded_column = nullptr;  // padded copy of a column; null: the chunk's source
  };
  const Run& r;
  const int64_t n;
  const std::byte* const image;
  Chunk chunk;
  const Part& part;
  const DirectConvolution& c = r.c_;
  const ConvProblem& p = r.p_;
  Source source{};
  ScratchArray<Source> padded_columns{};
  ScratchArray<BrgemmBlock> blocks{std::ssize(part.blocks)};
  std::byte* box = nullptr;
  std::byte* sums = nullptr;
  std::byte* transposed_sums = nullptr;
  int32_t* windows = nullptr;

  int64_t output_rows() const { return chunk.extent[0] * chunk.extent[1]; }
  int64_t rows() const { return output_rows() * chunk.extent[2]; }

  void run() {
    auto* scratch = thread_scratch(
        ScratchUse::task,
        static_cast<int64_t>(c.scratch_box_ + 2 * c.scratch_sums_ + c.scratch_rows_));
    box = scratch;
    sums = scratch + c.scratch_box_;
    transposed_sums = sums + c.scratch_sums_;
    windows = reinterpret_cast<int32_t*>(transposed_sums + c.scratch_sums_);
    ConvEpilogue epilogue(r.call_, r.terms(chunk.part), n, c.through_sums_);
    if (!c.im2col_chunks_) return multiply(epilogue);
    // im2col in steps that stay in L2 until the GEMM reads them.
    const int64_t first = chunk.begin[2], end = first + chunk.extent[2];
    for (chunk.begin[2] = first; chunk.begin[2] < end; chunk.begin[2] += kIm2colRows) {
      chunk.extent[2] = std::min(kIm2colRows, end - chunk.begin[2]);
      multiply(epilogue);
    }
  }

  void multiply(ConvEpilogue& epilogue) {
    find_source();
    for (int64_t g = 0; g < p.groups; ++g) {
      if (c.flat_ && !c.through_sums_) {
        flat_channels_last(epilogue, g);
      } else if (c.flat_) {
        flat_channels_first(epilogue, g);
      } else if (c.through_sums_) {
        by_output_channels(epilogue, g);
      } else if (!joined_output_rows(epilogue, g)) {
        by_output_rows(epilogue, g);
      }
    }
  }

  void find_source() {
    source.pitch[2] = p.channels;
    if (c.im2col_chunks_) {
      const int64_t begin = chunk.begin[2], end = begin + chunk.extent[2];
      if (c.original_.scales_x) {
        c.scaled_rows(image, r.call_.x_factors + n * c.original_.channels, box, begin, end);
      } else {
        c.im2col_rows(image, box, begin, end, c.padding(r.call_));
      }
      source.x = box;
      source.origin[2] = chunk.begin[2];
      return;
    }
    const auto& axes = p.axes;
    if (c.in_place_) {
      source.x = image;
      source.pitch[1] = axes[2].input * p.channels;
      source.pitch[0] = axes[1].input * source.pitch[1];
      if (c.skips_padding_ && c.pads_columns(part, chunk)) pad_columns();
      return;
    }
    const ConvBox read = c.pads_image_ ? c.padded_box_ : c.box(part, chunk);
    if (!c.pads_image_) {
      PaddedInput padded = c.padded_;
      padded.padding = c.padding(r.call_);
      copy_padded_box(p, padded, read, image, box);
    }
    source.x = c.pads_image_ ? image : box;
    source.origin = read.begin;
    source.pitch[1] = read.extent[2] * p.channels;
    source.pitch[0] = read.extent[1] * source.pitch[1];
  }

  void pad_columns() {
    std::byte* to = box;
    int64_t columns = 0;
    c.each_column(part, chunk, [&](int64_t) { ++columns; });
    if (columns > std::ssize(padded_columns)) padded_columns = ScratchArray<Source>(columns);
    Source* next = padded_columns.begin();
    c.each_column(part, chunk, [&](int64_t w) {
      const ConvBox read = c.column_box(part, chunk, w);
      copy_padded_box(p, c.padded_, read, image, to);
      Source& column = *next++;
      column.x = to;
      column.origin = read.begin;
      column.pitch = {read.extent[1] * read.extent[2] * p.channels, read.extent[2] * p.channels,
                      p.channels};
      to += c.box_bytes(read);
    });
  }

  // True if padding is zero, so that skipped taps do not change accumulators. A zero point of x
  // makes padding nonzero.
  bool pads_with_zeros() const {
    return !has_integer_sums(c.type_) || (r.call_.x_zero == 0 && c.shift_ == 0);
  }
  bool is_padding(size_t axis, int64_t output, const Block& block) const {
    const int64_t at = output * part.geometry.axes[axis].step + block.offset[axis];
    return pads_with_zeros() && (at < 0 || at >= p.axes[axis].input);
  }

  // GEMM of some panels with some rows of the chunk.
  BrgemmCall gemm_call(const Rows& rows, int64_t group, const std::byte* b) {
    const auto [d, h, w, outputs, is_column, padded_column] = rows;
    const auto& [x, origin, pitch] = padded_column == nullptr ? source : *padded_column;
    const auto& axes = part.geometry.axes;
    const int64_t block_bytes = packed_panel_bytes(*c.kernel_, part.k);
    // Contiguous taps: only those inside the image.
    int64_t first = 0, k = c.elements_read(part), b_offset = 0;
    if (c.skips_padding_ && part.contiguous_taps) {
      const ConvTaps taps = taps_inside(axes[2], p.axes[2].input, w);
      first = static_cast<int64_t>(taps.first);
      k = static_cast<int64_t>(taps.second - taps.first) * p.channels;
      b_offset = first * p.channels / c.kernel_->k_group * c.kernel_->panel_columns * 4;
    }
    size_t count = 0;
    for (size_t i = 0; i < part.blocks.size() && k > 0; ++i) {
      const Block& block = part.blocks[i];
      if (!c.flat_ && padded_column == nullptr &&
          (is_padding(0, d, block) || is_padding(1, h, block)))
        continue;
      if (c.skips_padding_ && !part.contiguous_taps && is_padding(2, w, block)) continue;
      int64_t in_row = h * axes[1].step + block.offset[1] - origin[1];
      if (c.flat_) in_row = in_row % axes[1].step * c.phase_rows_ + in_row / axes[1].step;
      const int64_t at = (d * axes[0].step + block.offset[0] - origin[0]) * pitch[0] +
                         in_row * pitch[1] +
                         (w * axes[2].step + block.offset[2] + first - origin[2]) * pitch[2] +
                         group * p.group_channels();
      blocks[count++] = {x + at * c.padded_.element_bytes,
                         b + static_cast<int64_t>(i) * block_bytes + b_offset};
    }
    const size_t along = is_column ? 1 : 2;
    BrgemmCall call;
    call.blocks = blocks.data();
    call.block_count = static_cast<int64_t>(count);
    call.k = k;
    call.a_row_stride = axes[along].step * pitch[along] * c.padded_.element_bytes;
    call.b_panel_stride = c.panel_stride(part);
    call.rows = outputs;
    return call;
  }

  // Calls f for runs of outputs whose windows have the same taps inside the image. A run is along
  // the width or the height.
  template <class F>
  void each_rows(F&& f) const {
    const int64_t h_end = chunk.begin[1] + chunk.extent[1];
    const int64_t w_begin = chunk.begin[2], w_end = w_begin + chunk.extent[2];
    for (int64_t d = chunk.begin[0]; d < chunk.begin[0] + chunk.extent[0]; ++d) {
      if (!c.skips_padding_) {
        for (int64_t h = chunk.begin[1]; h < h_end; ++h) f({d, h, w_begin, chunk.extent[2], false});
        continue;
      }
      for (const Segment& segment : part.segments) {
        const int64_t first = std::max(w_begin, segment.begin);
        const int64_t count = std::min(w_end, segment.begin + segment.count) - first;
        for (int64_t h = chunk.begin[1]; count >= kMinOutputs && h < h_end; ++h)
          f({d, h, first, count, false});
      }
      // Columns without a padded copy have the same taps inside the image at all heights.
      const Source* padded_column = padded_columns.data();
      c.each_column(part, chunk, [&](int64_t w) {
        f({d, chunk.begin[1], w, chunk.extent[1], true,
           padded_columns.empty() ? nullptr : padded_column++});
      });
    }
  }

  // All output rows of the chunk in one GEMM, including the padding between them.
  Rows flat_rows() const {
    return {chunk.begin[0], chunk.begin[1], chunk.begin[2], chunk.extent[2], false};
  }
  void set_flat_rows(BrgemmCall& call) const {
    call.rows = (chunk.extent[1] - 1) * flat_row_pitch() + chunk.extent[2];
  }
  int64_t flat_row_pitch() const { return c.padded_box_.extent[2] / part.geometry.axes[2].step; }

  // Channels-last: the GEMM writes y.
  void flat_channels_last(ConvEpilogue& epilogue, int64_t group) {
    const int64_t size = info(p.y_type).bits / 8, width = chunk.extent[2];
    const Rows rows = flat_rows();
    const int64_t first = position(rows);
    const int64_t column = group * p.group_outputs() + chunk.panel * c.kernel_->panel_columns;
    auto* y = static_cast<std::byte*>(r.call_.y) + n * p.output_positions() * p.outputs * size;
    epilogue.place(first, 1);
    epilogue.window_sums(window_sums(rows, group, windows));
    BrgemmCall call = gemm_call(rows, group, c.panels(r.weights(), part, group, chunk.panel));
    set_flat_rows(call);
    if (flat_row_pitch() != width) {
      call.output_row_width = width;
      call.output_row_pitch = flat_row_pitch();
    }
    set_weight_prefetch(call, chunk.panel + chunk.panels);
    call.columns = columns_of(chunk.panels, chunk.panel);
    call.epilogue = &epilogue.get();
    call.column = column;
    call.out = y + (first * p.outputs + column) * size;
    call.out_stride = p.outputs * size;
    c.kernel_->run(call);
  }

  // The first rows of an image read the weights from memory; `next` is the panel after the call's.
  void set_weight_prefetch(BrgemmCall& call, int64_t next) const {
    call.b_is_cold = (n == 0 && chunk.begin == std::array<int64_t, kConvAxes>{});
    call.b_continues = next < c.group_panels();
  }

  // Channels-first, flat: accumulators are transposed before the epilogue, so that rows of y are
  // channels.
  void flat_channels_first(ConvEpilogue& epilogue, int64_t group) {
    const int64_t width = chunk.extent[2], output_rows = chunk.extent[1],
                  count = output_rows * width;
    const int64_t size = info(p.y_type).bits / 8, panel = c.kernel_->panel_columns;
    const Rows rows = flat_rows();
    const int64_t first = position(rows);
    const int32_t* window = window_sums(rows, group, windows);
    epilogue.place(first, 1);
    // Columns per step: their accumulators stay in L2.
    const int64_t step =
        std::max<int64_t>(1, kSumsInCache / (output_rows * flat_row_pitch() * panel * 4));
    for (int64_t done = 0; done < chunk.panels; done += step) {
      const int64_t start = chunk.panel + done;
      const int64_t columns = columns_of(std::min(step, chunk.panels - done), start);
      const int64_t column = group * p.group_outputs() + start * panel;
      BrgemmCall call = gemm_call(rows, group, c.panels(r.weights(), part, group, start));
      set_flat_rows(call);
      call.columns = columns;
      call.out = sums;
      call.out_stride = columns * 4;
      c.kernel_->run(call);
      for (int64_t i = 0; i < output_rows; ++i)
        transpose_matrix(4, sums + i * flat_row_pitch() * columns * 4, columns,
                         transposed_sums + i * width * 4, count, width, columns);
      epilogue.window_sums(window);
      auto* y = static_cast<std::byte*>(r.call_.y) + n * p.output_positions() * p.outputs * size;
      EpilogueTile tile;
      tile.integer_sums = has_integer_sums(c.type_);
      tile.sums = transposed_sums;
      tile.sums_stride = count;
      tile.rows = columns;
      tile.columns = count;
      tile.row = column;
      tile.out = y + (column * p.output_positions() + first) * size;
      tile.out_stride = p.output_positions() * size;
      finish_tile(c.isa_)(epilogue.get(), tile);
    }
  }

  // Position of the first output in the image, and distance to the next.
  int64_t position(const Rows& rows) const {
    const auto& axes = part.geometry.axes;
    const auto at = [&](size_t i, int64_t q) { return axes[i].begin + q * axes[i].stride; };
    return (at(0, rows.d) * p.axes[1].output + at(1, rows.h)) * p.axes[2].output + at(2, rows.w);
  }
  int64_t position_stride(const Rows& rows) const {
    const auto& axes = part.geometry.axes;
    return rows.is_column ? axes[1].stride * p.axes[2].output : axes[2].stride;
  }

  // Partial sums of x under the windows, if a weight zero point is not 0; stored `step` apart.
  const int32_t* window_sums(const Rows& rows, int64_t group, int32_t* to, int64_t step = 1) {
    const IntegerTerms* terms = r.terms(chunk.part);
    if (terms == nullptr || terms->weight_zero == nullptr) return nullptr;
    BrgemmCall call = gemm_call(rows, group, r.ones_[chunk.part]);
    if (c.flat_) set_flat_rows(call);
    const ScratchArray<int32_t> window_totals(call.rows);
    call.columns = 1;
    call.out = window_totals.data();
    call.out_stride = 4;
    c.kernel_->run(call);
    const auto shift =
        static_cast<int32_t>(static_cast<int64_t>(part.blocks.size()) * part.k * c.shift_);
    const int64_t width = rows.count, pitch = c.flat_ ? flat_row_pitch() : width;
    for (int64_t h = 0; h * pitch < call.rows; ++h)
      for (int64_t i = 0; i < width; ++i)
        to[(h * width + i) * step] = window_totals[static_cast<size_t>(h * pitch + i)] - shift;
    return to;
  }

  int64_t columns_of(int64_t panels, int64_t panel) const {
    const int64_t width = c.kernel_->panel_columns;
    return std::min(panels * width, p.group_outputs() - panel * width);
  }

  // Calls f for runs of im2col rows whose windows have the same kernel rows inside the image. The
  // range of k that f gets excludes zero padding.
  template <class F>
  void each_padded_run(F&& f) {
    const int64_t end = chunk.begin[2] + chunk.extent[2];
    const auto& [depth, height, width] = c.original_.axes;
    const int64_t kernel_row = width.kernel * c.original_.channels;
    const bool cuts = c.im2col_ && c.isa_ != Isa::amx && depth.kernel == 1 && height.kernel > 1 &&
                      pads_with_zeros() && kernel_row % c.kernel_->k_group == 0;
    if (!cuts) return f(chunk.begin[2], chunk.extent[2], 0, c.elements_read(part));
    const auto taps_of = [&](int64_t row) {
      return taps_inside(c.original_height_, height.input, row / width.output % height.output);
    };
    for (int64_t row = chunk.begin[2]; row < end;) {
      const ConvTaps taps = taps_of(row);
      int64_t next = row;
      do {
        next = std::min(end, (next / width.output + 1) * width.output);
      } while (next < end && taps_of(next) == taps);
      f(row, next - row, static_cast<int64_t>(taps.first) * kernel_row,
        static_cast<int64_t>(taps.second) * kernel_row);
      row = next;
    }
  }

  // Computes all output rows of a padded chunk in one GEMM. Returns false unless they are
  // contiguous in y and the kernel supports the padding between them.
  bool joined_output_rows(ConvEpilogue& epilogue, int64_t group) {
    const auto& axes = part.geometry.axes;
    const int64_t step = axes[2].step * source.pitch[2], row_step = axes[1].step * source.pitch[1];
    const Rows rows{chunk.begin[0],  chunk.begin[1], chunk.begin[2],
                    chunk.extent[2], false,          &source};
    if (c.in_place_ || c.im2col_ || c.kernel_->takes_output_rows_of == nullptr) return false;
    if (step == 0 || row_step % step != 0) return false;
    if (chunk.extent[0] != 1 || chunk.extent[2] != p.axes[2].output || axes[1].stride != 1)
      return false;
    const int64_t first = position(rows), size = info(p.y_type).bits / 8;
    epilogue.place(first, 1);
    if (window_sums(rows, group, windows) != nullptr) return false;
    BrgemmCall call = gemm_call(rows, group, c.panels(r.weights(), part, group, chunk.panel));
    call.output_row_pitch = row_step / step;
    call.output_row_width = chunk.extent[2];
    call.rows = (chunk.extent[1] - 1) * call.output_row_pitch + call.output_row_width;
    call.columns = columns_of(chunk.panels, chunk.panel);
    call.epilogue = &epilogue.get();
    call.column = group * p.group_outputs() + chunk.panel * c.kernel_->panel_columns;
    call.out = static_cast<std::byte*>(r.call_.y) +
               ((n * p.output_positions() + first) * p.outputs + call.column) * size;
    call.out_stride = p.outputs * size;
    if (!c.kernel_->takes_output_rows_of(call)) return false;
    c.kernel_->run(call);
    return true;
  }

  // Channels-last: the GEMM writes y.
  void by_output_rows(ConvEpilogue& epilogue, int64_t group) {
    const int64_t size = info(p.y_type).bits / 8, width = c.kernel_->panel_columns;
    auto* y = static_cast<std::byte*>(r.call_.y) + n * p.output_positions() * p.outputs * size;
    const int64_t together = c.tile_panels(part);
    const int64_t fit = kWeightsInCache / std::max<int64_t>(1, c.panel_stride(part));
    const int64_t step = std::max(fit / together, int64_t{1}) * together;
    for (int64_t done = 0; done < chunk.panels; done += step) {
      const int64_t panel = chunk.panel + done;
      const int64_t column = group * p.group_outputs() + panel * width;
      each_rows([&](const Rows& rows) {
        const int64_t first = position(rows), stride = position_stride(rows);
        epilogue.place(first, stride);
        epilogue.window_sums(window_sums(rows, group, windows));
        BrgemmCall call = gemm_call(rows, group, c.panels(r.weights(), part, group, panel));
        const int64_t panels = std::min(step, chunk.panels - done);
        set_weight_prefetch(call, panel + panels);
        // With one tile of columns, the prefetch of the next panel is spread over all output rows.
        if (panels <= together && !rows.is_column) {
          call.prefetch_part = rows.h - chunk.begin[1];
          call.prefetch_parts = chunk.extent[1];
        }
        call.b_is_cold = call.b_is_cold && !rows.is_column;
        call.a_is_cold = c.in_place_ && !c.im2col_ && done == 0;
        call.columns = columns_of(panels, panel);
        call.epilogue = &epilogue.get();
        call.column = column;
        call.out_stride = stride * p.outputs * size;
        if (!c.im2col_) {
          call.out = y + (first * p.outputs + column) * size;
          return c.kernel_->run(call);
        }
        const BrgemmBlock all = blocks[0];
        each_padded_run([&](int64_t row, int64_t rows, int64_t begin, int64_t end) {
          call.row = row - chunk.begin[2];
          call.rows = rows;
          call.k = end - begin;
          call.out = y + ((first + call.row) * p.outputs + column) * size;
          blocks[0] = {static_cast<const std::byte*>(all.a) + call.row * call.a_row_stride +
                           begin * c.padded_.element_bytes,
                       static_cast<const std::byte*>(all.b) +
                           begin / c.kernel_->k_group * c.kernel_->panel_columns * 4};
          c.kernel_->run(call);
        });
        blocks[0] = all;
      });
    }
  }

  // Channels-first: accumulators are transposed before the epilogue, so that rows of y are
  // channels.
  void by_output_channels(ConvEpilogue& epilogue, int64_t group) {
    const int64_t size = info(p.y_type).bits / 8, count = rows();
    const int64_t columns = columns_of(chunk.panels, chunk.panel);
    const int64_t column = group * p.group_outputs() + chunk.panel * c.kernel_->panel_columns;
    const int32_t* window = nullptr;
    each_rows([&](const Rows& rows) {
      const int64_t out_row = (rows.d - chunk.begin[0]) * chunk.extent[1] + rows.h - chunk.begin[1];
      const int64_t row = out_row * chunk.extent[2] + rows.w - chunk.begin[2];
      const int64_t step = rows.is_column ? chunk.extent[2] : 1;
      if (window_sums(rows, group, windows + row, step) != nullptr) window = windows;
      BrgemmCall call = gemm_call(rows, group, c.panels(r.weights(), part, group, chunk.panel));
      call.columns = columns;
      call.out = sums + row * columns * 4;
      call.out_stride = step * columns * 4;
      c.kernel_->run(call);
    });
    transpose_matrix(4, sums, columns, transposed_sums, count, count, columns);
    const int64_t first = position(flat_rows());
    epilogue.place(first, 1);
    epilogue.window_sums(window);
    EpilogueTile tile;
    tile.sums = transposed_sums;
    tile.integer_sums = has_integer_sums(c.type_);
    tile.sums_stride = count;
    tile.rows = columns;
    tile.columns = count;
    tile.row = column;
    tile.out = static_cast<std::byte*>(r.call_.y) +
               ((n * p.outputs + column) * p.output_positions() + first) * size;
    tile.out_stride = p.output_positions() * size;
    finish_tile(c.isa_)(epilogue.get(), tile);
  }
};

void DirectConvolution::Run::chunk(int64_t n, const std::byte* x, const Chunk& chunk) const {
  Work{*this, n, x, chunk, c_.parts_[chunk.part]}.run();
}

}  // namespace lathe::cpu
