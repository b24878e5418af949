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

constexpr int64_t kIntermediateBytes = 64 << 10;  // intermediate of a chunk, depthwise first
constexpr int64_t kRingBytes = 20 << 10;          // ring buffer of the intermediate, in L1
constexpr int64_t kWideBytes = 100 << 10;         // input rows of one output row, in L2
constexpr int64_t kRecomputeLimit = 16;  // at most one row in kRecomputeLimit is computed twice
constexpr int64_t kRecomputeLimitIfShared = 7;  // if threads share cache lines of y
constexpr int64_t kWeightBytes = 20 << 10;      // panels of a chunk, which each row reads from L1
constexpr int64_t kMaxWide = 4;    // channels of a chunk, in multiples of the narrowest
constexpr int64_t kMinChunks = 4;  // at least, per thread, if chunks are wide
constexpr int64_t kMinRows = 6;    // outputs of a chunk; chunks recompute shared input rows
constexpr int64_t kSums = 112 * DepthwiseConvolution::kChannels * 4;  // bytes, one output row

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

// Returns the GEMM's last step if it is an activation that does not overlap with FMAs. A separate
// pass over f32 in memory is faster.
const EpilogueStep* separate_activation(const Epilogue& epilogue) {
  if (epilogue.out != ElementType::f32 || epilogue.steps.empty()) return nullptr;
  const EpilogueStep& last = epilogue.steps.back();
  const bool is_short =
      last.activation == Activation::relu || last.activation == Activation::hard_swish;
  return last.kind != EpilogueStep::Kind::activate || is_short ? nullptr : &last;
}

void prefetch(const std::byte* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(at + i, 0, 2);
}

}  // namespace

std::string why_not_fused(const FusedDwPwProblem& p, Isa isa) {
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
      intermediate_size_(info(p_.second.x_type).bits / 8) {
  const std::string reason = why_not_fused(problem, isa);
  check(reason.empty(), ErrorKind::unsupported, "fused pair of {}: {}", problem.first.text(),
        reason);
  const ConvAxis& height = wide_.axes[1];
  const int64_t panels = pointwise_.panels_per_group();
  if (depthwise_first_) {
    // Chunks contain all channels of a row, so that the GEMM uses all its panels. An even number of
    // chunks of nearly equal height balances two threads.
    const int64_t row_bytes = wide_.axes[2].output * wide_.channels * intermediate_size_;
    const int64_t most = std::max<int64_t>(1, kIntermediateBytes / std::max<int64_t>(1, row_bytes));
    const int64_t target_rows = std::clamp<int64_t>((height.output + 7) / 8, 1, most);
    const int64_t chunks = (height.output + target_rows - 1) / target_rows;
    const int64_t count = std::min(chunks + chunks % 2, height.output);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t h = i * height.output / count, end = (i + 1) * height.output / count;
      chunks_.push_back({h, end - h, 0, panels});
      intermediate_bytes_ =
          std::max(intermediate_bytes_, static_cast<size_t>((end - h) * row_bytes));
    }
  } else {
    cut_panels();
  }
  intermediate_bytes_ = (intermediate_bytes_ + 63) / 64 * 64;
}

// Splits the channels into groups of panels. Wide groups write y in long contiguous runs and reload
// x rarely, which outweighs an intermediate in L1. Threads split the rows if few are recomputed.
// Otherwise they split the panels, and the rows of the last panels.
void FusedDwPw::cut_panels() {
  const ConvAxis& height = wide_.axes[1];
  const int64_t panels = pointwise_.panels_per_group();
  const int64_t least =
      std::max<int64_t>(1, DepthwiseConvolution::kChannels / pointwise_.panel_columns());
  const int64_t row_bytes =
      wide_.axes[2].input * least * pointwise_.panel_columns() * intermediate_size_;
  const int64_t input_bytes = row_bytes * std::min(height.input, ring_rows(1));
  const int64_t weights =
      p_.first.channels * least * pointwise_.panel_columns() * intermediate_size_;
  const int64_t by_weights =
      std::min(kWideBytes / std::max<int64_t>(1, input_bytes), kWeightBytes / weights);
  const int64_t at_once = kRingBytes / std::max<int64_t>(1, row_bytes * height.input);
  const int64_t widest = std::clamp<int64_t>(std::max(by_weights, at_once), 1, kMaxWide);
  const int64_t groups = (panels + least - 1) / least;
  for (size_t i = 0; i < kPlans; ++i) {
    const int64_t threads = int64_t{1} << i;
    const int64_t cuts = row_cuts(threads), sharing = cuts > 1 ? 1 : threads;
    const int64_t whole = groups / sharing * sharing;
    const int64_t most = sharing == 1 ? groups : groups / sharing / kMinChunks;
    const int64_t wide = std::clamp<int64_t>(most, 1, widest);
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
    const int64_t parts = std::clamp<int64_t>(height.output / kMinRows, 1, threads);
    for (int64_t g = whole; g < groups; ++g) {
      for (int64_t part = 0; part < parts; ++part)
        add(height.output * part / parts, height.output * (part + 1) / parts, g, g + 1);
    }
  }
  for (int64_t wide = 1; wide <= widest; ++wide) {
    const int64_t rows = std::min(ring_rows(rows_per_step(wide * row_bytes)), height.input);
    intermediate_bytes_ =
        std::max(intermediate_bytes_, static_cast<size_t>(rows * wide * row_bytes));
  }
}

// Returns the parts of an image for threads; 1 if recomputing rows at the seams costs more.
int64_t FusedDwPw::row_cuts(int64_t threads) const {
  const ConvAxis& height = wide_.axes[1];
  const int64_t span = (height.kernel - 1) * height.dilation + 1;
  const int64_t twice = std::max<int64_t>(0, span - height.stride);  // rows recomputed per seam
  // Prefetchers move pairs of cache lines.
  const bool shared = wide_.channels * (info(wide_.y_type).bits / 8) % 128 != 0;
  const int64_t most = shared ? kRecomputeLimitIfShared : kRecomputeLimit;
  const bool recomputes_too_much =
      height.output < threads || twice * (threads - 1) * most > height.input;
  return recomputes_too_much ? 1 : threads;
}

// Returns the output rows per step: the ring buffer holds their input rows.
int64_t FusedDwPw::rows_per_step(int64_t row_bytes) const {
  const ConvAxis& height = wide_.axes[1];
  const int64_t span = (height.kernel - 1) * height.dilation + 1;
  const int64_t fit = kRingBytes / std::max<int64_t>(1, row_bytes);
  if (fit >= height.input) return height.output;
  return std::clamp<int64_t>((fit - span) / height.stride + 1, 1, height.output);
}
int64_t FusedDwPw::ring_rows(int64_t rows) const {
  const ConvAxis& height = wide_.axes[1];
  return (rows - 1) * height.stride + (height.kernel - 1) * height.dilation + 1;
}

const Convolution& FusedDwPw::first() const {
  return depthwise_first_ ? static_cast<const Convolution&>(depthwise_) : pointwise_;
}
const Convolution& FusedDwPw::second() const {
  return depthwise_first_ ? static_cast<const Convolution&>(pointwise_) : depthwise_;
}

int64_t FusedDwPw::first_row(const Chunk& chunk) const {
  const ConvAxis& height = wide_.axes[1];
  return std::clamp<int64_t>(chunk.h * height.stride - height.pad, 0, height.input);
}
int64_t FusedDwPw::last_row(const Chunk& chunk) const {
  const ConvAxis& height = wide_.axes[1];
  const int64_t last = (chunk.h + chunk.rows - 1) * height.stride - height.pad +
                       (height.kernel - 1) * height.dilation + 1;
  return std::clamp<int64_t>(last, first_row(chunk), height.input);
}

// Depthwise is memory-bound and the GEMM reads only cached data: both stages prefetch the next
// chunk's input, in proportion to their work.
void FusedDwPw::depthwise_first(const FusedDwPwCall& call, Shared& shared, int64_t n,
                                size_t index) const {
  const Chunk& chunk = chunks_[index];
  const ConvAxis& width = wide_.axes[2];
  auto* intermediate =
      thread_scratch(ScratchUse::task, static_cast<int64_t>(intermediate_bytes_ + kSums));
  void* sums = intermediate + intermediate_bytes_;
  const int64_t x_size = info(wide_.x_type).bits / 8, y_size = info(p_.second.y_type).bits / 8;
  const int64_t x_row_bytes = width.input * wide_.channels * x_size;
  const auto* x = static_cast<const std::byte*>(call.first.x) +
                  n * wide_.input_positions() * wide_.channels * x_size;
  const ConvEpilogue& epilogue = shared.first[static_cast<size_t>(n)];
  const int64_t first = chunk.h * width.output, rows = chunk.rows * width.output;
  const int64_t y_stride = p_.second.outputs * y_size;
  auto* y = static_cast<std::byte*>(call.second.y) +
            (n * p_.second.output_positions() + first) * y_stride;
  DepthwiseConvolution::OutputRows out_rows;
  out_rows.h = chunk.h;
  out_rows.count = chunk.rows;
  out_rows.end = width.output;
  out_rows.channels = wide_.channels;
  out_rows.prefetch = false;  // the intermediate is cached
  out_rows.to_write = {y, rows * y_stride};
  DepthwiseConvolution::Source source{x, 0, 0, wide_.axes[1].input};
  DepthwisePrefetch next_input;
  const bool is_prefetched =
      shared.prefetched_by[index].load(std::memory_order_relaxed) == intermediate;
  if (index + 1 < chunks_.size()) {
    next_input.at = x + last_row(chunk) * x_row_bytes;
    next_input.bytes = (last_row(chunks_[index + 1]) - last_row(chunk)) * x_row_bytes;
    shared.prefetched_by[index + 1].store(intermediate, std::memory_order_relaxed);
  }
  if (is_prefetched) {
    // Work: operations per vector of channels, plus 8 for its stores.
    const int64_t depthwise_work = wide_.taps() + 8, pointwise_work = p_.second.outputs;
    out_rows.to_read = {next_input.at, next_input.bytes / 64 * depthwise_work /
                                           (depthwise_work + pointwise_work) * 64};
    next_input.at += out_rows.to_read.bytes;
    next_input.bytes -= out_rows.to_read.bytes;
    source.prefetch = false;
  }
  depthwise_rows(out_rows, source, call.first, epilogue.get(), sums, intermediate,
                 wide_.channels * intermediate_size_);
  DirectConvolution::PointwiseRows gemm{intermediate, first, rows,    chunk.panel,
                                        chunk.panels, y,     y_stride};
  gemm.b_is_cold = n == 0 && chunk.h == 0;
  gemm.prefetch_data = next_input.at;
  gemm.prefetch_bytes = next_input.bytes;
  pointwise_.pointwise_rows(call.second, shared.second[static_cast<size_t>(n)], gemm);
}

void FusedDwPw::pointwise_first(const FusedDwPwCall& call, const Shared& shared, int64_t n,
                                const Chunk& chunk) const {
  const ConvProblem& point = p_.first;
  auto* intermediate =
      thread_scratch(ScratchUse::task, static_cast<int64_t>(intermediate_bytes_ + kSums));
  void* sums = intermediate + intermediate_bytes_;
  const ConvAxis& width = wide_.axes[2];
  const int64_t x_size = info(point.x_type).bits / 8, y_size = info(wide_.y_type).bits / 8;
  const int64_t begin = first_row(chunk), image = n * point.input_positions();
  const auto* x = static_cast<const std::byte*>(call.first.x) + image * point.channels * x_size;
  const EpilogueStep* activation = shared.activation;
  const int64_t start = chunk.panel * pointwise_.panel_columns();
  const int64_t count = std::min(chunk.panels * pointwise_.panel_columns(), wide_.channels - start);
  const int64_t at = n * wide_.output_positions() + chunk.h * width.output;
  const int64_t y_row_bytes = width.output * wide_.channels * y_size;
  auto* y = static_cast<std::byte*>(call.second.y) + (at * wide_.channels + start) * y_size;
  // Prefetches the first output row during the GEMM.
  for (int64_t i = 0; i < width.output; ++i)
    prefetch(y + i * wide_.channels * y_size, count * y_size);
  const ConvEpilogue& epilogue = shared.second[static_cast<size_t>(n)];
  const int64_t row_bytes = width.input * count * intermediate_size_;
  const int64_t steps = rows_per_step(row_bytes);
  DepthwiseConvolution::Source source{intermediate, 0, begin, 0};
  source.ring = ring_rows(steps);
  source.channel_pitch = count;
  source.channel = start;
  source.prefetch = false;
  int64_t done = begin;
  for (int64_t h = 0; h < chunk.rows; h += steps) {
    const Chunk part{chunk.h + h, std::min(steps, chunk.rows - h), chunk.panel, chunk.panels};
    while (done < last_row(part)) {
      const int64_t slot = (done - begin) % source.ring;
      const int64_t new_rows = std::min(last_row(part) - done, source.ring - slot);
      const int64_t position = done * width.input, rows = new_rows * width.input;
      DirectConvolution::PointwiseRows gemm{x + position * point.channels * x_size,
                                            position,
                                            rows,
                                            chunk.panel,
                                            chunk.panels,
                                            intermediate + slot * row_bytes,
                                            count * intermediate_size_};
      // Panels are read from memory once; the first rows of a chunk prefetch the next chunk's
      // panels.
      gemm.a_is_cold = true;
      gemm.out_is_cached = done - begin >= source.ring;
      gemm.b_is_cold = n == 0 && done == begin;
      gemm.b_continues = chunk.panel + chunk.panels < pointwise_.panels_per_group();
      pointwise_.pointwise_rows(call.first, shared.first[static_cast<size_t>(n)], gemm);
      if (activation != nullptr) {
        auto* elements = reinterpret_cast<float*>(intermediate + slot * row_bytes);
        vector_ops(isa_).activate(activation->activation, activation->a, activation->b, elements,
                                  elements, rows * count);
      }
      done += new_rows;
    }
    DepthwiseConvolution::OutputRows out_rows{0, part.h, part.rows, 0, width.output, start, count};
    out_rows.continues = h + part.rows < chunk.rows;
    depthwise_rows(out_rows, source, call.second, epilogue.get(), sums, y + h * y_row_bytes,
                   wide_.channels * y_size);
  }
}

// Computes all channels of `out_rows` by blocks into `out`; positions are out_stride bytes apart.
void FusedDwPw::depthwise_rows(const DepthwiseConvolution::OutputRows& out_rows,
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
    depthwise_.compute_rows(out_rows, source, weights, x_zero, *simple, out_rows.h * columns, out,
                            columns * out_stride, out_stride);
    return;
  }
  for (int64_t c = 0; c < out_rows.channels; c += kChannels) {
    DepthwiseConvolution::OutputRows block = out_rows;
    block.channel += c;
    block.channels = std::min(kChannels, out_rows.channels - c);
    std::byte* to = out + c * size;
    depthwise_.sum_rows(block, source, weights, x_zero, sums, [&](int64_t i, const void* row_sums) {
      EpilogueTile tile = tile_of(wide_, row_sums, columns, block.channel, block.channels,
                                  (out_rows.h + i) * columns);
      tile.out = to + i * columns * out_stride;
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
  Shared shared(p_.first.batch);
  if (depthwise_first_) {
    shared.prefetched_by = ScratchArray<std::atomic<const void*>>(std::ssize(chunks_));
    for (auto& each : shared.prefetched_by) new (&each) std::atomic<const void*>(nullptr);
  }
  ConvCall first = call.first;
  if (!depthwise_first_) shared.activation = separate_activation(first.epilogue);
  if (shared.activation != nullptr) {
    first.epilogue.steps = first.epilogue.steps.first(first.epilogue.steps.size() - 1);
  }
  for (int64_t n = 0; n < p_.first.batch; ++n) {
    shared.first.add(first, first_terms, n);
    shared.second.add(call.second, second_terms, n);
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
