// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/winograd.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/conv/conv_epilogue.h"

namespace lathe::cpu {

[[gnu::weak]] extern const WinogradTable kWinogradAvx2, kWinogradAvx512;

namespace {

constexpr int64_t kWeightsInCache = 1200 << 10;  // bytes of weights that stay in L2 between strips
constexpr int64_t kPitchPadding = 16;            // spreads frequencies over cache sets

// Bytes of uncached weights per cycle and thread while all threads read.
constexpr double kBytesPerCycle = 4;

int64_t tiles_of(int64_t extent, int m) { return (extent + m - 1) / m; }

// One axis of the weight transform: rows of G.
template <int kFrequencies>
void weight_sums(const double (&w)[3], double (&u)[kFrequencies]) {
  if constexpr (kFrequencies == 4) {
    u[0] = w[0];
    u[1] = (w[0] + w[1] + w[2]) / 2;
    u[2] = (w[0] - w[1] + w[2]) / 2;
    u[3] = w[2];
  } else {
    u[0] = w[0] / 4;
    u[1] = -(w[0] + w[1] + w[2]) / 6;
    u[2] = -(w[0] - w[1] + w[2]) / 6;
    u[3] = (w[0] + 2 * w[1] + 4 * w[2]) / 24;
    u[4] = (w[0] - 2 * w[1] + 4 * w[2]) / 24;
    u[5] = w[2];
  }
}

// Frequencies of one 3x3 kernel, `pitch` apart; computed in f64, rounded once.
template <int kFrequencies>
void transform_weights(const float* w, float* to, int64_t pitch) {
  double half[3][kFrequencies];
  for (int i = 0; i < 3; ++i) {
    const double row[3] = {w[3 * i], w[3 * i + 1], w[3 * i + 2]};
    weight_sums(row, half[i]);
  }
  for (int j = 0; j < kFrequencies; ++j) {
    const double column[3] = {half[0][j], half[1][j], half[2][j]};
    double sums[kFrequencies];
    weight_sums(column, sums);
    for (int i = 0; i < kFrequencies; ++i)
      to[(i * kFrequencies + j) * pitch] = static_cast<float>(sums[i]);
  }
}

}  // namespace

std::string why_not_winograd(const ConvProblem& p, Isa) {
  if (p.x_type != ElementType::f32)
    return fmt::format("x is {}, expected f32", to_string(p.x_type));
  const auto& [depth, height, width] = p.axes;
  const auto fits = [](const ConvAxis& a) {
    return a.kernel == 3 && a.stride == 1 && a.dilation == 1;
  };
  if (p.transposed || depth.input != 1 || depth.kernel != 1 || depth.output != 1 || !fits(height) ||
      !fits(width))
    return fmt::format("{}: not a 3x3 kernel with stride 1 over an image", p.text());
  if (p.groups != 1) return fmt::format("{} groups, expected 1", p.groups);
  if (p.x_layout != ActivationLayout::channels_last ||
      p.y_layout != ActivationLayout::channels_last)
    return fmt::format("{}: activations are not channels-last", p.text());
  return {};
}

double direct_cycles(const ConvProblem& p) {
  const double weights = static_cast<double>(p.channels * p.outputs);
  const double multiplications = static_cast<double>(p.batch * p.output_positions()) * weights * 9;
  return std::max(multiplications / 29, 9 * weights * 4 / kBytesPerCycle);
}

double winograd_cycles(const ConvProblem& p, int m) {
  const int64_t tiles = p.batch * tiles_of(p.axes[1].output, m) * tiles_of(p.axes[2].output, m);
  const double weights = static_cast<double>(p.channels * p.outputs);
  const double frequencies = (m + 2) * (m + 2);
  const double rows = static_cast<double>(tiles);
  const double multiply =
      std::max(frequencies * rows * weights / 25, frequencies * weights * 4 / kBytesPerCycle);
  return multiply + rows * frequencies * static_cast<double>(p.channels + p.outputs) * 0.4;
}

WinogradConvolution::WinogradConvolution(const ConvProblem& problem, Isa isa, int m)
    : p_(problem),
      isa_(isa),
      m_(m),
      kernel_(&brgemm_kernel(isa, GemmType::f32)),
      table_(in_build(isa >= Isa::avx512 ? &kWinogradAvx512 : &kWinogradAvx2, isa)),
      tile_rows_(tiles_of(problem.axes[1].output, m)),
      tile_columns_(tiles_of(problem.axes[2].output, m)) {
  check_problem(problem);
  if (static_cast<int64_t>(packed_bytes()) <= kWeightsInCache) {
    strip_ = std::clamp<int64_t>(28 / std::max<int64_t>(1, tile_columns_), 1, tile_rows_);
  }
}

std::string WinogradConvolution::packing_id() const {
  return fmt::format("winograd F({0}x{0},3x3) {1}x{2} panels of {3}", m_, p_.outputs, p_.channels,
                     kernel_->panel_columns);
}

size_t WinogradConvolution::packed_bytes() const {
  return static_cast<size_t>(frequencies() * panels() * panel_bytes());
}

void WinogradConvolution::pack(const ConvWeights& weights, void* to, ThreadPool* pool) const {
  check(weights.type == ElementType::f32, ErrorKind::invalid_argument,
        "convolution {}: weights have type {}, expected f32", p_.text(), to_string(weights.type));
  const int64_t columns = kernel_->panel_columns, pitch = panels() * panel_bytes() / 4;
  auto* packed = static_cast<float*>(to);
  parallel_for(pool, panels(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      for (int64_t f = 0; f < frequencies(); ++f)
        std::memset(packed + f * pitch + panel * panel_bytes() / 4, 0,
                    static_cast<size_t>(panel_bytes()));
      for (int64_t i = 0; i < std::min(columns, p_.outputs - panel * columns); ++i) {
        const float* w =
            static_cast<const float*>(weights.data) + (panel * columns + i) * p_.channels * 9;
        for (int64_t c = 0; c < p_.channels; ++c) {
          float* u = packed + panel * panel_bytes() / 4 + c * columns + i;
          m_ == 2 ? transform_weights<4>(w + 9 * c, u, pitch)
                  : transform_weights<6>(w + 9 * c, u, pitch);
        }
      }
    }
  });
}

int64_t WinogradConvolution::buffer_bytes(int64_t tile_rows) const {
  const int64_t tiles = tile_rows * tile_columns_;
  const int64_t elements = tiles * (p_.channels + p_.outputs) + 4 * kPitchPadding;
  return frequencies() * elements * 4;
}

WinogradConvolution::Buffers WinogradConvolution::buffers(void* memory, int64_t tile_rows) const {
  const auto pitch = [&](int64_t channels) {
    return (tile_rows * tile_columns_ * channels + 15) / 16 * 16 + kPitchPadding;
  };
  Buffers b;
  b.inputs = static_cast<float*>(memory);
  b.input_pitch = pitch(p_.channels);
  b.sum_pitch = pitch(p_.outputs);
  b.sums = b.inputs + frequencies() * b.input_pitch;
  return b;
}

void WinogradConvolution::transform_inputs(const float* x, int64_t row, int64_t count, int64_t at,
                                           const Buffers& b) const {
  const auto& [depth, height, width] = p_.axes;
  WinogradInput in;
  in.row_pitch = width.input * p_.channels;
  in.column_pitch = p_.channels;
  in.channels = p_.channels;
  in.to_pitch = b.input_pitch;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t h = (row + i) * m_ - height.pad;
    in.row_begin = std::clamp<int64_t>(-h, 0, m_ + 2);
    in.row_end = std::clamp<int64_t>(height.input - h, in.row_begin, m_ + 2);
    for (int64_t j = 0; j < tile_columns_; ++j) {
      const int64_t w = j * m_ - width.pad;
      in.column_begin = std::clamp<int64_t>(-w, 0, m_ + 2);
      in.column_end = std::clamp<int64_t>(width.input - w, in.column_begin, m_ + 2);
      in.x = x + (h * width.input + w) * p_.channels;
      in.to = b.inputs + (at + i * tile_columns_ + j) * p_.channels;
      m_ == 2 ? table_->input2(in) : table_->input4(in);
    }
  }
}

void WinogradConvolution::multiply(const std::byte* weights, int64_t frequency, int64_t tiles,
                                   const Buffers& b) const {
  const BrgemmBlock block{b.inputs + frequency * b.input_pitch,
                          weights + frequency * panels() * panel_bytes()};
  BrgemmCall call;
  call.blocks = &block;
  call.block_count = 1;
  call.k = p_.channels;
  call.a_row_stride = p_.channels * 4;
  call.b_panel_stride = panel_bytes();
  call.rows = tiles;
  call.columns = p_.outputs;
  call.out = b.sums + frequency * b.sum_pitch;
  call.out_stride = p_.outputs * 4;
  kernel_->run(call);
}

void WinogradConvolution::transform_outputs(const ConvCall& call, int64_t n, int64_t row,
                                            int64_t count, int64_t at, const Buffers& b) const {
  const auto& [depth, height, width] = p_.axes;
  const int64_t size = info(p_.y_type).bits / 8, row_elements = width.output * p_.outputs;
  const bool in_place = p_.y_type == ElementType::f32;
  const ConvEpilogue epilogue(call, nullptr, n, false);
  auto* y = static_cast<std::byte*>(call.y) + n * p_.output_positions() * p_.outputs * size;
  const ScratchArray<float> row_sums(in_place ? 0 : m_ * row_elements);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t h = (row + i) * m_;
    std::byte* to = y + h * row_elements * size;
    float* sums = in_place ? reinterpret_cast<float*>(to) : row_sums.data();
    WinogradOutput out;
    out.from_pitch = b.sum_pitch;
    out.channels = p_.outputs;
    out.row_pitch = row_elements;
    out.column_pitch = p_.outputs;
    out.rows = std::min<int64_t>(m_, height.output - h);
    for (int64_t j = 0; j < tile_columns_; ++j) {
      out.from = b.sums + (at + i * tile_columns_ + j) * p_.outputs;
      out.y = sums + j * m_ * p_.outputs;
      out.columns = std::min<int64_t>(m_, width.output - j * m_);
      m_ == 2 ? table_->output2(out) : table_->output4(out);
    }
    EpilogueTile tile;
    tile.sums = sums;
    tile.sums_stride = p_.outputs;
    tile.rows = out.rows * width.output;
    tile.columns = p_.outputs;
    tile.row = h * width.output;
    tile.out = to;
    tile.out_stride = p_.outputs * size;
    if (!in_place || !epilogue.get().keeps_sums()) finish_tile(isa_)(epilogue.get(), tile);
  }
}

void WinogradConvolution::run(const ConvCall& call) const {
  const auto* weights = static_cast<const std::byte*>(call.weights);
  const int64_t image = p_.input_positions() * p_.channels;
  const auto* x = static_cast<const float*>(call.x);
  if (strip_ > 0) {
    const int64_t strips = (tile_rows_ + strip_ - 1) / strip_;
    parallel_for(call.pool, p_.batch * strips, 1, [&](int64_t begin, int64_t end) {
      const Buffers b = buffers(thread_scratch(ScratchUse::task, buffer_bytes(strip_)), strip_);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t n = i / strips, row = i % strips * strip_;
        const int64_t count = std::min(strip_, tile_rows_ - row);
        transform_inputs(x + n * image, row, count, 0, b);
        for (int64_t f = 0; f < frequencies(); ++f) multiply(weights, f, count * tile_columns_, b);
        transform_outputs(call, n, row, count, 0, b);
      }
    });
    return;
  }
  const Buffers b =
      buffers(thread_scratch(ScratchUse::caller, buffer_bytes(tile_rows_)), tile_rows_);
  for (int64_t n = 0; n < p_.batch; ++n) {
    parallel_for(call.pool, tile_rows_, 1, [&](int64_t begin, int64_t end) {
      transform_inputs(x + n * image, begin, end - begin, begin * tile_columns_, b);
    });
    parallel_for(call.pool, frequencies(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t f = begin; f < end; ++f) multiply(weights, f, tile_rows_ * tile_columns_, b);
    });
    parallel_for(call.pool, tile_rows_, 1, [&](int64_t begin, int64_t end) {
      transform_outputs(call, n, begin, end - begin, begin * tile_columns_, b);
    });
  }
}

}  // namespace lathe::cpu
