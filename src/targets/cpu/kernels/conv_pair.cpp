// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv_pair.h"

#include <algorithm>

#include "base/error.h"
#include "base/thread_pool.h"
#include "targets/cpu/kernels/scratch.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kMiddleBytes = 192 << 10;  // of what is between the two, beside both in L2
constexpr int64_t kWidePanels = 4;           // of one chunk: long runs of outputs to write
constexpr int64_t kWideThreads = 2;          // more of them need more chunks
constexpr int64_t kSums = 112 * DepthwiseConvolution::kChannels * 4;  // bytes of a line of sums

bool is_image(const ConvProblem& p) {
  return p.axes[0].input == 1 && p.axes[0].kernel == 1 && p.axes[0].output == 1;
}

bool depthwise_comes_first(const PairProblem& p) {
  return p.second.groups == 1 && p.second.is_pointwise();
}

std::string why_not_channels_last(const ConvProblem& p) {
  const bool last = p.x_layout == ActivationLayout::channels_last &&
                    p.y_layout == ActivationLayout::channels_last;
  return last ? "" : fmt::format("{}: activations are not channels last", p.text());
}

// Sums of one block of channels, [columns][kChannels], to [columns][channels] at `out`.
EpilogueTile tile_of(const ConvProblem& p, const void* sums, int64_t columns, int64_t channel,
                     int64_t channels, int64_t position) {
  EpilogueTile tile;
  tile.sums = sums;
  tile.integer_sums = p.is_integer();
  tile.sums_stride = DepthwiseConvolution::kChannels;
  tile.rows = columns;
  tile.columns = channels;
  tile.row = position;
  tile.column = channel;
  return tile;
}

void fetch(const std::byte* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 1);
}

}  // namespace

std::string why_not_pair(const PairProblem& p, Isa isa) {
  for (const ConvProblem* each : {&p.first, &p.second}) {
    if (std::string reason = why_not_channels_last(*each); !reason.empty()) return reason;
    if (!is_image(*each)) return fmt::format("{}: not an image", each->text());
  }
  if (p.first.outputs != p.second.channels || p.first.y_type != p.second.x_type)
    return fmt::format("{} gives {} of {}, {} takes {} of {}", p.first.text(), p.first.outputs,
                       to_string(p.first.y_type), p.second.text(), p.second.channels,
                       to_string(p.second.x_type));
  const bool depthwise_first = depthwise_comes_first(p);
  const ConvProblem& wide = depthwise_first ? p.first : p.second;
  const ConvProblem& point = depthwise_first ? p.second : p.first;
  if (!point.is_pointwise() || point.groups != 1)
    return fmt::format("{}: not pointwise", point.text());
  if (wide.axes[2].output > 112)
    return fmt::format("{}: lines of {} outputs are too long", wide.text(), wide.axes[2].output);
  return why_not_depthwise(wide, isa);
}

ConvPair::ConvPair(const PairProblem& problem, Isa isa)
    : p_(problem),
      isa_(isa),
      depthwise_first_(depthwise_comes_first(problem)),
      wide_(depthwise_first_ ? p_.first : p_.second),
      depthwise_(wide_, isa),
      pointwise_(depthwise_first_ ? p_.second : p_.first, isa),
      middle_size_(info(p_.second.x_type).bits / 8) {
  const std::string reason = why_not_pair(problem, isa);
  check(reason.empty(), ErrorKind::unsupported, "pair of {}: {}", problem.first.text(), reason);
  const ConvAxis& height = wide_.axes[1];
  const int64_t panels = pointwise_.panels_per_group();
  if (depthwise_first_) {
    // Lines of all channels; the product takes all its panels.
    const int64_t line = wide_.axes[2].output * wide_.channels * middle_size_;
    const int64_t most = std::max<int64_t>(1, kMiddleBytes / std::max<int64_t>(1, line));
    const int64_t lines = std::clamp<int64_t>((height.output + 7) / 8, 1, most);
    for (int64_t h = 0; h < height.output; h += lines)
      chunks_.push_back({h, std::min(lines, height.output - h), 0, panels});
    middle_bytes_ = static_cast<size_t>(lines * line);
  } else {
    cut_panels();
  }
  middle_bytes_ = (middle_bytes_ + 63) / 64 * 64;
}

// Some panels of channels, over as many lines as fit: those that two chunks read are computed
// twice. Wide chunks are of more panels while all lines fit, fewer towards the end, so that
// threads end together.
void ConvPair::cut_panels() {
  const ConvAxis& height = wide_.axes[1];
  const int64_t panels = pointwise_.panels_per_group();
  const int64_t line = wide_.axes[2].input * pointwise_.panel_columns() * middle_size_;
  const int64_t least =
      std::max<int64_t>(1, DepthwiseConvolution::kChannels / pointwise_.panel_columns());
  const int64_t span = (height.kernel - 1) * height.dilation + 1;
  const auto add = [&](std::vector<Chunk>& chunks, int64_t panel, int64_t step) {
    const int64_t own = step * line;
    const int64_t most = std::max<int64_t>(1, (2 * kMiddleBytes / own - span) / height.stride + 1);
    const int64_t cuts = (height.output + most - 1) / most;
    const int64_t lines = (height.output + cuts - 1) / cuts;
    for (int64_t h = 0; h < height.output; h += lines)
      chunks.push_back(
          {h, std::min(lines, height.output - h), panel, std::min(step, panels - panel)});
    middle_bytes_ =
        std::max(middle_bytes_, static_cast<size_t>(((lines - 1) * height.stride + span) * own));
  };
  const int64_t fit = 2 * kMiddleBytes / std::max<int64_t>(1, line * height.input);
  const int64_t widest = std::clamp<int64_t>(fit, 1, kWidePanels) * least;
  for (int64_t panel = 0; panel < panels; panel += least) add(chunks_, panel, least);
  for (int64_t panel = 0, step = 0; panel < panels; panel += step) {
    step = std::clamp<int64_t>((panels - panel) / 3 / least * least, least, widest);
    add(wide_chunks_, panel, step);
  }
}

const Convolution& ConvPair::first() const {
  return depthwise_first_ ? static_cast<const Convolution&>(depthwise_) : pointwise_;
}
const Convolution& ConvPair::second() const {
  return depthwise_first_ ? static_cast<const Convolution&>(pointwise_) : depthwise_;
}

int64_t ConvPair::first_line(const Chunk& chunk) const {
  const ConvAxis& height = wide_.axes[1];
  return std::clamp<int64_t>(chunk.h * height.stride - height.pad, 0, height.input);
}
int64_t ConvPair::last_line(const Chunk& chunk) const {
  const ConvAxis& height = wide_.axes[1];
  const int64_t last = (chunk.h + chunk.lines - 1) * height.stride - height.pad +
                       (height.kernel - 1) * height.dilation + 1;
  return std::clamp<int64_t>(last, first_line(chunk), height.input);
}

void ConvPair::depthwise_first(const PairCall& call, const Terms& terms, int64_t n,
                               const Chunk& chunk, int64_t next) const {
  const ConvAxis& width = wide_.axes[2];
  auto* middle = thread_scratch(ScratchUse::task, static_cast<int64_t>(middle_bytes_ + kSums));
  void* sums = middle + middle_bytes_;
  const int64_t x_size = info(wide_.x_type).bits / 8, y_size = info(p_.second.y_type).bits / 8;
  const auto* x = static_cast<const std::byte*>(call.first.x) +
                  n * wide_.input_positions() * wide_.channels * x_size;
  const ConvEpilogue epilogue(call.first, wide_.is_integer() ? &terms.depthwise : nullptr, n,
                              false);
  const int64_t first = chunk.h * width.output, rows = chunk.lines * width.output;
  const int64_t y_stride = p_.second.outputs * y_size;
  auto* y = static_cast<std::byte*>(call.second.y) +
            (n * p_.second.output_positions() + first) * y_stride;
  DepthwiseConvolution::Lines lines;
  lines.h = chunk.h;
  lines.lines = chunk.lines;
  lines.end = width.output;
  lines.channels = wide_.channels;
  lines.fetch = false;  // the middle is in the cache
  lines.to_write = {y, rows * y_stride};
  DepthwiseConvolution::Source source{x, 0, 0, wide_.axes[1].input};
  source.next = next;
  depthwise_lines(lines, source, call.first, epilogue.get(), sums, middle,
                  wide_.channels * middle_size_);
  const ConvEpilogue point_epilogue(call.second,
                                    p_.second.is_integer() ? &terms.pointwise : nullptr, n, false);
  pointwise_.pointwise_rows(call.second, point_epilogue, middle, first, rows, chunk.panel,
                            chunk.panels, y, y_stride);
}

void ConvPair::pointwise_first(const PairCall& call, const Terms& terms, int64_t n,
                               const Chunk& chunk) const {
  const ConvProblem& point = p_.first;
  auto* middle = thread_scratch(ScratchUse::task, static_cast<int64_t>(middle_bytes_ + kSums));
  void* sums = middle + middle_bytes_;
  const ConvAxis& width = wide_.axes[2];
  const int64_t x_size = info(point.x_type).bits / 8, y_size = info(wide_.y_type).bits / 8;
  const int64_t begin = first_line(chunk), lines = last_line(chunk) - begin;
  const int64_t first = begin * width.input;
  const auto* x = static_cast<const std::byte*>(call.first.x) +
                  (n * point.input_positions() + first) * point.channels * x_size;
  const ConvEpilogue point_epilogue(call.first, point.is_integer() ? &terms.pointwise : nullptr, n,
                                    false);
  const int64_t start = chunk.panel * pointwise_.panel_columns();
  const int64_t count = std::min(chunk.panels * pointwise_.panel_columns(), wide_.channels - start);
  const int64_t at = n * wide_.output_positions() + chunk.h * width.output;
  auto* y = static_cast<std::byte*>(call.second.y) + (at * wide_.channels + start) * y_size;
  // The first line that will be written comes while the products run.
  for (int64_t i = 0; i < width.output; ++i) fetch(y + i * wide_.channels * y_size, count * y_size);
  pointwise_.pointwise_rows(call.first, point_epilogue, x, first, lines * width.input, chunk.panel,
                            chunk.panels, middle, count * middle_size_);
  const ConvEpilogue epilogue(call.second, wide_.is_integer() ? &terms.depthwise : nullptr, n,
                              false);
  DepthwiseConvolution::Source source{middle, 0, begin, lines};
  source.channel_pitch = count;
  source.channel = start;
  source.fetch = false;
  depthwise_lines({0, chunk.h, chunk.lines, 0, width.output, start, count}, source, call.second,
                  epilogue.get(), sums, y, wide_.channels * y_size);
}

// All channels of `lines`, in blocks, to `out`, whose positions are out_stride bytes apart.
void ConvPair::depthwise_lines(const DepthwiseConvolution::Lines& lines,
                               const DepthwiseConvolution::Source& source, const ConvCall& call,
                               const Epilogue& epilogue, void* sums, std::byte* out,
                               int64_t out_stride) const {
  constexpr int64_t kChannels = DepthwiseConvolution::kChannels;
  const int64_t columns = wide_.axes[2].output, size = info(wide_.y_type).bits / 8;
  const auto* weights = static_cast<const float*>(call.weights);
  const auto x_zero = static_cast<float>(call.x_zero);
  const SimpleEpilogue* simple = epilogue.simple;
  const auto finish = finish_tile(isa_);
  if (simple != nullptr) {
    depthwise_.compute_lines(lines, source, weights, x_zero, *simple, lines.h * columns, out,
                             columns * out_stride, out_stride);
    return;
  }
  for (int64_t c = 0; c < lines.channels; c += kChannels) {
    DepthwiseConvolution::Lines block = lines;
    block.channel += c;
    block.channels = std::min(kChannels, lines.channels - c);
    std::byte* to = out + c * size;
    depthwise_.sum_lines(block, source, weights, x_zero, sums, [&](int64_t line, const void* row) {
      EpilogueTile tile =
          tile_of(wide_, row, columns, block.channel, block.channels, (lines.h + line) * columns);
      tile.out = to + line * columns * out_stride;
      tile.out_stride = out_stride;
      finish(epilogue, tile);
    });
  }
}

void ConvPair::run(const PairCall& call) const {
  const ThreadPool* pool = call.first.pool;
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  const bool wide = !wide_chunks_.empty() && threads <= kWideThreads;
  const std::vector<Chunk>& chunks = wide ? wide_chunks_ : chunks_;
  const auto count = static_cast<int64_t>(chunks.size());
  const Terms terms{depthwise_.terms(depthwise_first_ ? call.first : call.second),
                    pointwise_.pointwise_terms(depthwise_first_ ? call.second : call.first)};
  parallel_for(call.first.pool, p_.first.batch * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / count, next = i % count + 1;
      const Chunk& chunk = chunks[static_cast<size_t>(i % count)];
      if (depthwise_first_) {
        depthwise_first(call, terms, n, chunk,
                        next < count ? chunks[static_cast<size_t>(next)].h : -1);
      } else {
        pointwise_first(call, terms, n, chunk);
      }
    }
  });
}

}  // namespace lathe::cpu
