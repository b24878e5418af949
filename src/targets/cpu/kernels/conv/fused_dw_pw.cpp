// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/fused_dw_pw.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/thread_pool.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/elementwise/vector_ops.h"

namespace lathe::cpu {
namespace {

constexpr int64_t kMiddleBytes = 64 << 10;  // of the intermediate, depthwise first
constexpr int64_t kRingBytes = 20 << 10;    // of the intermediate in L1 beside both convolutions
constexpr int64_t kWideBytes = 100 << 10;   // of the input rows of one output row, in L2
constexpr int64_t kDear = 16;               // at most one row in kDear is computed twice
constexpr int64_t kDearIfShared = 7;  // likewise if threads would write to the same cache lines
constexpr int64_t kWeightBytes = 20 << 10;  // of a chunk's panels, which each row reads from L1
constexpr int64_t kMostWide = 4;            // limit, in multiples of the least channels per chunk
constexpr int64_t kLeastChunks = 4;         // per thread, before chunks of panels get wider
constexpr int64_t kLeastLines = 6;  // of outputs per chunk; chunks recompute shared input rows
constexpr int64_t kSums =
    112 * DepthwiseConvolution::kChannels * 4;  // bytes of accumulators of one output row

bool is_image(const ConvProblem& p) {
  return p.axes[0].input == 1 && p.axes[0].kernel == 1 && p.axes[0].output == 1;
}

bool depthwise_comes_first(const FusedDwPwProblem& p) {
  return p.second.groups == 1 && p.second.is_pointwise();
}

std::string why_not_channels_last(const ConvProblem& p) {
  const bool last = p.x_layout == ActivationLayout::channels_last &&
                    p.y_layout == ActivationLayout::channels_last;
  return last ? "" : fmt::format("{}: activations are not channels-last", p.text());
}

// Epilogue tile for one block of channels: accumulators [columns][kChannels], output
// [columns][channels].
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

// Returns the GEMM's last step if it is faster as a separate pass over f32 in memory: activations
// too long to overlap with FMAs.
const EpilogueStep* later_activation(const Epilogue& epilogue) {
  if (epilogue.out != ElementType::f32 || epilogue.steps.empty()) return nullptr;
  const EpilogueStep& last = epilogue.steps.back();
  const bool is_short =
      last.activation == Activation::relu || last.activation == Activation::hard_swish;
  return last.kind != EpilogueStep::Kind::activate || is_short ? nullptr : &last;
}

void fetch(const std::byte* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
}

}  // namespace

std::string why_not_pair(const FusedDwPwProblem& p, Isa isa) {
  for (const ConvProblem* each : {&p.first, &p.second}) {
    if (std::string reason = why_not_channels_last(*each); !reason.empty()) return reason;
    if (!is_image(*each)) return fmt::format("{}: not an image", each->text());
  }
  if (p.first.outputs != p.second.channels || p.first.y_type != p.second.x_type)
    return fmt::format("{} has {} outputs of {}, {} reads {} of {}", p.first.text(),
                       p.first.outputs, to_string(p.first.y_type), p.second.text(),
                       p.second.channels, to_string(p.second.x_type));
  const bool depthwise_first = depthwise_comes_first(p);
  const ConvProblem& wide = depthwise_first ? p.first : p.second;
  const ConvProblem& point = depthwise_first ? p.second : p.first;
  if (!point.is_pointwise() || point.groups != 1)
    return fmt::format("{}: not pointwise", point.text());
  if (wide.axes[2].output > 112)
    return fmt::format("{}: output rows have {} elements, at most 112 are supported", wide.text(),
                       wide.axes[2].output);
  return why_not_depthwise(wide, isa);
}

FusedDwPw::FusedDwPw(const FusedDwPwProblem& problem, Isa isa)
    : p_(problem),
      isa_(isa),
      depthwise_first_(depthwise_comes_first(problem)),
      wide_(depthwise_first_ ? p_.first : p_.second),
      depthwise_(wide_, isa),
      pointwise_(depthwise_first_ ? p_.second : p_.first, isa),
      middle_size_(info(p_.second.x_type).bits / 8) {
  const std::string reason = why_not_pair(problem, isa);
  check(reason.empty(), ErrorKind::unsupported, "fused pair of {}: {}", problem.first.text(),
        reason);
  const ConvAxis& height = wide_.axes[1];
  const int64_t panels = pointwise_.panels_per_group();
  if (depthwise_first_) {
    // Whole rows of all channels, so that the GEMM uses all its panels. An even number of chunks of
    // nearly equal height balances two threads.
    const int64_t line = wide_.axes[2].output * wide_.channels * middle_size_;
    const int64_t most = std::max<int64_t>(1, kMiddleBytes / std::max<int64_t>(1, line));
    const int64_t wanted = std::clamp<int64_t>((height.output + 7) / 8, 1, most);
    const int64_t chunks = (height.output + wanted - 1) / wanted;
    const int64_t count = std::min(chunks + chunks % 2, height.output);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t h = i * height.output / count, end = (i + 1) * height.output / count;
      chunks_.push_back({h, end - h, 0, panels});
      middle_bytes_ = std::max(middle_bytes_, static_cast<size_t>((end - h) * line));
    }
  } else {
    cut_panels();
  }
  middle_bytes_ = (middle_bytes_ + 63) / 64 * 64;
}

// Splits the channels into groups of panels. Wide groups write long runs of y and reload x rarely,
// which outweighs an intermediate that fits L1; a small image keeps its intermediate in L1. Threads
// split the rows if few are recomputed, otherwise the panels, and the rows of the last ones.
void FusedDwPw::cut_panels() {
  const ConvAxis& height = wide_.axes[1];
  const int64_t panels = pointwise_.panels_per_group();
  const int64_t least =
      std::max<int64_t>(1, DepthwiseConvolution::kChannels / pointwise_.panel_columns());
  const int64_t line = wide_.axes[2].input * least * pointwise_.panel_columns() * middle_size_;
  const int64_t seen = line * std::min(height.input, ring_lines(1));
  const int64_t weights = p_.first.channels * least * pointwise_.panel_columns() * middle_size_;
  const int64_t by_lines =
      std::min(kWideBytes / std::max<int64_t>(1, seen), kWeightBytes / weights);
  const int64_t at_once = kRingBytes / std::max<int64_t>(1, line * height.input);
  const int64_t widest = std::clamp<int64_t>(std::max(by_lines, at_once), 1, kMostWide);
  const int64_t groups = (panels + least - 1) / least;
  for (size_t i = 0; i < kPlans; ++i) {
    const int64_t threads = int64_t{1} << i;
    const int64_t cuts = line_cuts(threads), sharing = cuts > 1 ? 1 : threads;
    const int64_t whole = groups / sharing * sharing;
    const int64_t most = sharing == 1 ? groups : groups / sharing / kLeastChunks;
    const int64_t wide = std::clamp<int64_t>(most, 1, widest);
    // Nearly equal widths.
    const int64_t wides = (whole + wide - 1) / wide;
    const auto add = [&](int64_t h, int64_t end, int64_t g, int64_t next) {
      plans_[i].push_back(
          {h, end - h, g * least, std::min((next - g) * least, panels - g * least)});
    };
    for (int64_t cut = 0; cut < cuts; ++cut) {
      for (int64_t w = 0; w < wides; ++w) {
        add(height.output * cut / cuts, height.output * (cut + 1) / cuts, whole * w / wides,
            whole * (w + 1) / wides);
      }
    }
    const int64_t parts = std::clamp<int64_t>(height.output / kLeastLines, 1, threads);
    for (int64_t g = whole; g < groups; ++g) {
      for (int64_t part = 0; part < parts; ++part)
        add(height.output * part / parts, height.output * (part + 1) / parts, g, g + 1);
    }
  }
  for (int64_t wide = 1; wide <= widest; ++wide) {
    const int64_t lines = std::min(ring_lines(lines_at_once(wide * line)), height.input);
    middle_bytes_ = std::max(middle_bytes_, static_cast<size_t>(lines * wide * line));
  }
}

// Parts of an image for threads; 1 if recomputing rows at the seams costs more.
int64_t FusedDwPw::line_cuts(int64_t threads) const {
  const ConvAxis& height = wide_.axes[1];
  const int64_t span = (height.kernel - 1) * height.dilation + 1;
  const int64_t twice = std::max<int64_t>(0, span - height.stride);  // rows recomputed per seam
  // Prefetchers move pairs of cache lines.
  const bool shared = wide_.channels * (info(wide_.y_type).bits / 8) % 128 != 0;
  const int64_t most = shared ? kDearIfShared : kDear;
  const bool dear = height.output < threads || twice * (threads - 1) * most > height.input;
  return dear ? 1 : threads;
}

// Output rows per step, whose input rows the ring buffer holds.
int64_t FusedDwPw::lines_at_once(int64_t line_bytes) const {
  const ConvAxis& height = wide_.axes[1];
  const int64_t span = (height.kernel - 1) * height.dilation + 1;
  const int64_t fit = kRingBytes / std::max<int64_t>(1, line_bytes);
  if (fit >= height.input) return height.output;
  return std::clamp<int64_t>((fit - span) / height.stride + 1, 1, height.output);
}
int64_t FusedDwPw::ring_lines(int64_t lines) const {
  const ConvAxis& height = wide_.axes[1];
  return (lines - 1) * height.stride + (height.kernel - 1) * height.dilation + 1;
}

const Convolution& FusedDwPw::first() const {
  return depthwise_first_ ? static_cast<const Convolution&>(depthwise_) : pointwise_;
}
const Convolution& FusedDwPw::second() const {
  return depthwise_first_ ? static_cast<const Convolution&>(pointwise_) : depthwise_;
}

int64_t FusedDwPw::first_line(const Chunk& chunk) const {
  const ConvAxis& height = wide_.axes[1];
  return std::clamp<int64_t>(chunk.h * height.stride - height.pad, 0, height.input);
}
int64_t FusedDwPw::last_line(const Chunk& chunk) const {
  const ConvAxis& height = wide_.axes[1];
  const int64_t last = (chunk.h + chunk.lines - 1) * height.stride - height.pad +
                       (height.kernel - 1) * height.dilation + 1;
  return std::clamp<int64_t>(last, first_line(chunk), height.input);
}

// Depthwise is memory-bound and the GEMM reads only cached data: both stages prefetch the next
// chunk's input, in proportion to their work.
void FusedDwPw::depthwise_first(const FusedDwPwCall& call, Shared& shared, int64_t n,
                                size_t index) const {
  const Chunk& chunk = chunks_[index];
  const ConvAxis& width = wide_.axes[2];
  auto* middle = thread_scratch(ScratchUse::task, static_cast<int64_t>(middle_bytes_ + kSums));
  void* sums = middle + middle_bytes_;
  const int64_t x_size = info(wide_.x_type).bits / 8, y_size = info(p_.second.y_type).bits / 8;
  const int64_t x_line = width.input * wide_.channels * x_size;
  const auto* x = static_cast<const std::byte*>(call.first.x) +
                  n * wide_.input_positions() * wide_.channels * x_size;
  const ConvEpilogue& epilogue = shared.first[static_cast<size_t>(n)];
  const int64_t first = chunk.h * width.output, rows = chunk.lines * width.output;
  const int64_t y_stride = p_.second.outputs * y_size;
  auto* y = static_cast<std::byte*>(call.second.y) +
            (n * p_.second.output_positions() + first) * y_stride;
  DepthwiseConvolution::Lines lines;
  lines.h = chunk.h;
  lines.lines = chunk.lines;
  lines.end = width.output;
  lines.channels = wide_.channels;
  lines.fetch = false;  // the intermediate is cached
  lines.to_write = {y, rows * y_stride};
  DepthwiseConvolution::Source source{x, 0, 0, wide_.axes[1].input};
  DepthwisePrefetch later;
  const bool knows = shared.asked[index].load(std::memory_order_relaxed) == middle;
  if (index + 1 < chunks_.size()) {
    later.at = x + last_line(chunk) * x_line;
    later.bytes = (last_line(chunks_[index + 1]) - last_line(chunk)) * x_line;
    shared.asked[index + 1].store(middle, std::memory_order_relaxed);
  }
  if (knows) {
    // Operations per vector of channels, and the cost of its stores.
    const int64_t here = wide_.taps() + 8, there = p_.second.outputs;
    lines.to_read = {later.at, later.bytes / 64 * here / (here + there) * 64};
    later.at += lines.to_read.bytes;
    later.bytes -= lines.to_read.bytes;
    source.fetch = false;
  }
  depthwise_lines(lines, source, call.first, epilogue.get(), sums, middle,
                  wide_.channels * middle_size_);
  DirectConvolution::PointwiseRows product{middle,       first, rows,    chunk.panel,
                                           chunk.panels, y,     y_stride};
  product.b_is_cold = n == 0 && chunk.h == 0;
  product.ahead = later.at;
  product.prefetch_bytes = later.bytes;
  pointwise_.pointwise_rows(call.second, shared.second[static_cast<size_t>(n)], product);
}

void FusedDwPw::pointwise_first(const FusedDwPwCall& call, const Shared& shared, int64_t n,
                                const Chunk& chunk) const {
  const ConvProblem& point = p_.first;
  auto* middle = thread_scratch(ScratchUse::task, static_cast<int64_t>(middle_bytes_ + kSums));
  void* sums = middle + middle_bytes_;
  const ConvAxis& width = wide_.axes[2];
  const int64_t x_size = info(point.x_type).bits / 8, y_size = info(wide_.y_type).bits / 8;
  const int64_t begin = first_line(chunk), image = n * point.input_positions();
  const auto* x = static_cast<const std::byte*>(call.first.x) + image * point.channels * x_size;
  const EpilogueStep* activation = shared.activation;
  const int64_t start = chunk.panel * pointwise_.panel_columns();
  const int64_t count = std::min(chunk.panels * pointwise_.panel_columns(), wide_.channels - start);
  const int64_t at = n * wide_.output_positions() + chunk.h * width.output;
  const int64_t y_line = width.output * wide_.channels * y_size;
  auto* y = static_cast<std::byte*>(call.second.y) + (at * wide_.channels + start) * y_size;
  // Prefetches the first output row during the GEMM.
  for (int64_t i = 0; i < width.output; ++i) fetch(y + i * wide_.channels * y_size, count * y_size);
  const ConvEpilogue& epilogue = shared.second[static_cast<size_t>(n)];
  const int64_t line = width.input * count * middle_size_;
  const int64_t steps = lines_at_once(line);
  DepthwiseConvolution::Source source{middle, 0, begin, 0};
  source.ring = ring_lines(steps);
  source.channel_pitch = count;
  source.channel = start;
  source.fetch = false;
  int64_t done = begin;
  for (int64_t h = 0; h < chunk.lines; h += steps) {
    const Chunk part{chunk.h + h, std::min(steps, chunk.lines - h), chunk.panel, chunk.panels};
    while (done < last_line(part)) {
      const int64_t slot = (done - begin) % source.ring;
      const int64_t lines = std::min(last_line(part) - done, source.ring - slot);
      const int64_t first_row = done * width.input, rows = lines * width.input;
      DirectConvolution::PointwiseRows product{x + first_row * point.channels * x_size,
                                               first_row,
                                               rows,
                                               chunk.panel,
                                               chunk.panels,
                                               middle + slot * line,
                                               count * middle_size_};
      // Panels are read from memory once; the first rows of a chunk prefetch the next chunk's
      // panels.
      product.a_is_cold = true;
      product.out_is_cached = done - begin >= source.ring;
      product.b_is_cold = n == 0 && done == begin;
      product.b_goes_on = chunk.panel + chunk.panels < pointwise_.panels_per_group();
      pointwise_.pointwise_rows(call.first, shared.first[static_cast<size_t>(n)], product);
      if (activation != nullptr) {
        auto* numbers = reinterpret_cast<float*>(middle + slot * line);
        vector_ops(isa_).activate(activation->activation, activation->a, activation->b, numbers,
                                  numbers, rows * count);
      }
      done += lines;
    }
    DepthwiseConvolution::Lines lines{0, part.h, part.lines, 0, width.output, start, count};
    lines.goes_on = h + part.lines < chunk.lines;
    depthwise_lines(lines, source, call.second, epilogue.get(), sums, y + h * y_line,
                    wide_.channels * y_size);
  }
}

// Computes all channels of `rows` by blocks into `out`; positions are out_stride bytes apart.
void FusedDwPw::depthwise_lines(const DepthwiseConvolution::Lines& lines,
                                const DepthwiseConvolution::Source& source, const ConvCall& call,
                                const Epilogue& epilogue, void* sums, std::byte* out,
                                int64_t out_stride) const {
  constexpr int64_t kChannels = DepthwiseConvolution::kChannels;
  const int64_t columns = wide_.axes[2].output, size = info(wide_.y_type).bits / 8;
  const auto* weights = static_cast<const float*>(call.weights);
  const int32_t x_zero = call.x_zero;
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

void FusedDwPw::run(const FusedDwPwCall& call) const {
  const ThreadPool* pool = call.first.pool;
  const int64_t threads = pool == nullptr ? 1 : pool->threads();
  const auto plan = static_cast<size_t>(std::bit_width(static_cast<uint64_t>(threads - 1)));
  const std::vector<Chunk>& chunks =
      depthwise_first_ ? chunks_ : plans_[std::min(plan, kPlans - 1)];
  const auto count = static_cast<int64_t>(chunks.size());
  const IntegerTerms wide_terms = depthwise_.terms(depthwise_first_ ? call.first : call.second);
  const IntegerTerms point_terms =
      pointwise_.pointwise_terms(depthwise_first_ ? call.second : call.first);
  const IntegerTerms* first_terms = depthwise_first_ ? &wide_terms : &point_terms;
  const IntegerTerms* second_terms = depthwise_first_ ? &point_terms : &wide_terms;
  if (!p_.first.is_integer()) first_terms = nullptr;
  if (!p_.second.is_integer()) second_terms = nullptr;
  Shared shared;
  if (depthwise_first_) shared.asked = std::vector<std::atomic<const void*>>(chunks_.size());
  ConvCall first = call.first;
  if (!depthwise_first_) shared.activation = later_activation(first.epilogue);
  if (shared.activation != nullptr) {
    first.epilogue.steps = first.epilogue.steps.first(first.epilogue.steps.size() - 1);
  }
  for (int64_t n = 0; n < p_.first.batch; ++n) {
    shared.first.emplace_back(first, first_terms, n, false);
    shared.second.emplace_back(call.second, second_terms, n, false);
  }
  parallel_for(call.first.pool, p_.first.batch * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / count;
      if (depthwise_first_) {
        depthwise_first(call, shared, n, static_cast<size_t>(i % count));
      } else {
        pointwise_first(call, shared, n, chunks[static_cast<size_t>(i % count)]);
      }
    }
  });
}

}  // namespace lathe::cpu
