// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/depthwise/depthwise.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/common/transpose.h"

namespace lathe::cpu {

[[gnu::weak]] extern const ComputeDepthwiseRow kDepthwiseF32Avx2, kDepthwiseBf16Avx2,
    kDepthwiseU8Avx2, kDepthwiseI8Avx2, kDepthwiseF32Avx512, kDepthwiseU8Avx512Vnni,
    kDepthwiseI8Avx512Vnni, kDepthwiseBf16Avx512Bf16;

namespace {

constexpr int64_t kExactTaps = 257;  // 255 * 255 each stay below 2^24, where f32 is exact

ComputeDepthwiseRow kernel_for(Isa isa, ElementType x) {
  // AVX-512 without VNNI has an f32 kernel only: the others would add 75 KB each to the library.
  const bool wide = isa >= Isa::avx512_vnni;
  switch (x) {
    case ElementType::bf16:
      return *in_build(isa >= Isa::avx512_bf16 ? &kDepthwiseBf16Avx512Bf16 : &kDepthwiseBf16Avx2,
                       isa);
    case ElementType::u8:
      return *in_build(wide ? &kDepthwiseU8Avx512Vnni : &kDepthwiseU8Avx2, isa);
    case ElementType::i8:
      return *in_build(wide ? &kDepthwiseI8Avx512Vnni : &kDepthwiseI8Avx2, isa);
    default:
      return *in_build(isa >= Isa::avx512 ? &kDepthwiseF32Avx512 : &kDepthwiseF32Avx2, isa);
  }
}

}  // namespace

std::string why_not_depthwise(const ConvProblem& p, Isa) {
  if (p.scales_x) return "x is scaled";
  if (p.groups != p.channels || p.outputs != p.channels)
    return fmt::format("not depthwise: {} groups, {} channels, {} outputs", p.groups, p.channels,
                       p.outputs);
  if (p.transposed) return "transposed convolution";
  if (p.is_integer() && p.taps() > kExactTaps)
    return fmt::format("{} taps, at most {} accumulate exactly in f32", p.taps(), kExactTaps);
  return {};
}

DepthwiseConvolution::DepthwiseConvolution(const ConvProblem& problem, Isa isa)
    : p_(problem), isa_(isa), kernel_(kernel_for(isa, problem.x_type)) {
  check_problem(problem);
  padded_.group_pitch = 1;
  padded_.element_bytes = info(p_.x_type).bits / 8;
  // Output rows per chunk: enough work per task. A multiple of four chunks of nearly equal height
  // balances two or four threads.
  constexpr int64_t kWork = 1 << 18, kColumns = 112, kChunks = 4;
  const auto& axes = p_.axes;
  const int64_t width = axes[2].output, across = std::min(width, kColumns);
  const int64_t height = std::max<int64_t>(1, axes[1].output);
  const int64_t row_work = std::max<int64_t>(1, across * p_.channels * p_.taps());
  const int64_t most = across < width ? 1 : std::clamp<int64_t>(kWork / row_work, 1, height);
  const int64_t min_chunks = (height + most - 1) / most;
  const int64_t row_chunks = std::min((min_chunks + kChunks - 1) / kChunks * kChunks, height);
  const int64_t rows = (height + row_chunks - 1) / row_chunks;
  for (int64_t d = 0; d < axes[0].output; ++d)
    for (int64_t i = 0; i < row_chunks; ++i)
      for (int64_t w = 0; w < width; w += across) {
        const int64_t h = i * axes[1].output / row_chunks;
        const int64_t end = (i + 1) * axes[1].output / row_chunks;
        if (h < end) chunks_.push_back({d, h, end - h, w, std::min(w + across, width)});
      }
  const bool channels_first = p_.y_layout == ActivationLayout::channels_first;
  scratch_sums_ = static_cast<size_t>((channels_first ? rows : 1) * across * kChannels * 4);
  if (p_.x_layout == ActivationLayout::channels_first) {
    for (const Chunk& chunk : chunks_) {
      const int64_t bytes = box(chunk).positions() * p_.channels * padded_.element_bytes;
      scratch_box_ = std::max(scratch_box_, static_cast<size_t>((bytes + 63) / 64 * 64));
    }
  }
}

std::string DepthwiseConvolution::packing_id() const {
  // Pairs do not cross kernel rows.
  const std::string form =
      takes_pairs() ? fmt::format("pairs by {}", p_.axes[2].kernel) : std::string("taps");
  return fmt::format("depthwise {} {} of {}", p_.taps(), form, pitch());
}

// Condition of depthwise_int8_pairs.h.
bool DepthwiseConvolution::takes_pairs() const {
  return p_.is_integer() && isa_ >= Isa::avx512_vnni;
}

size_t DepthwiseConvolution::packed_bytes() const {
  return static_cast<size_t>(p_.taps() * pitch() * 4);
}

void DepthwiseConvolution::pack(const ConvWeights& weights, void* to, ThreadPool*) const {
  auto* packed = static_cast<float*>(to);
  std::memset(packed, 0, packed_bytes());
  const auto fill = [&](auto value) {
    for (int64_t c = 0; c < p_.channels; ++c) {
      const int32_t zero = weights.zero == nullptr ? 0 : weights.zero[c];
      for (int64_t tap = 0; tap < p_.taps(); ++tap)
        packed[tap * pitch() + c] = value(c * p_.taps() + tap) - static_cast<float>(zero);
    }
    if (takes_pairs()) make_pairs(packed);
  };
  const void* data = weights.data;
  switch (weights.type) {
    case ElementType::f32:
      return fill([&](int64_t i) { return static_cast<const float*>(data)[i]; });
    case ElementType::bf16:
      return fill([&](int64_t i) {
        return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(data)[i]} << 16);
      });
    case ElementType::u8:
      return fill(
          [&](int64_t i) { return static_cast<float>(static_cast<const uint8_t*>(data)[i]); });
    case ElementType::i8:
      return fill(
          [&](int64_t i) { return static_cast<float>(static_cast<const int8_t*>(data)[i]); });
    default:
      fail(ErrorKind::invalid_argument,
           "depthwise convolution: weights have type {}, expected f32, bf16, u8 or i8",
           to_string(weights.type));
  }
}

void DepthwiseConvolution::compute_rows(const OutputRows& out_rows, const Source& source,
                                        const float* weights, int32_t x_zero,
                                        const SimpleEpilogue& epilogue, int64_t position, void* out,
                                        int64_t row_stride, int64_t out_stride) const {
  DepthwiseRow row;
  row.epilogue = &epilogue;
  row.out_stride = out_stride;
  row.column = out_rows.channel;
  each_output_row(out_rows, source, weights, x_zero, row, [&](int64_t i, DepthwiseRow& ready) {
    ready.out = static_cast<std::byte*>(out) + i * row_stride;
    ready.row = position + i * p_.axes[2].output;
    ready.next_row_out =
        out_rows.prefetch && (out_rows.continues || i + 1 < out_rows.count) ? row_stride : 0;
    ready.out_is_cold = out_rows.prefetch;
    kernel_(ready);
  });
}

// Rows of x that the next output row is the first to read.
DepthwisePrefetch DepthwiseConvolution::next_input_rows(const OutputRows& out_rows,
                                                        const Source& source, int64_t i) const {
  const auto& [depth, height, width] = p_.axes;
  const bool whole = out_rows.channels == p_.channels && source.channel_pitch == 0;
  const int64_t h = out_rows.h + i, next = i + 1 < out_rows.count ? h + 1 : source.next;
  if (!source.prefetch || !whole || depth.kernel != 1 || next < 0) return {};
  const int64_t span = (height.kernel - 1) * height.dilation + 1;
  int64_t begin = next * height.stride - height.pad;
  const int64_t end = std::clamp<int64_t>(begin + span, 0, height.input);
  if (next > h) begin = std::max(begin, h * height.stride - height.pad + span);
  begin = std::clamp<int64_t>(begin, 0, end);
  const int64_t bytes = width.input * p_.channels * padded_.element_bytes;
  const int64_t d = out_rows.d * depth.stride - depth.pad - source.d;
  return {source.x + (d * source.plane + begin - source.h) * bytes, (end - begin) * bytes};
}

IntegerTerms DepthwiseConvolution::terms(const ConvCall& call) const {
  if (!p_.is_integer()) return {};
  const std::vector<int32_t> none(static_cast<size_t>(p_.channels));
  return integer_terms(call, p_.channels, 0, 0, none.data(), nullptr);
}

// Input rows of a chunk, clipped to the input.
ConvBox DepthwiseConvolution::box(const Chunk& chunk) const {
  const auto read = [](const ConvAxis& axis, int64_t first, int64_t count, ConvBox& box, size_t i) {
    const int64_t begin = first * axis.stride - axis.pad;
    const int64_t end = begin + (count - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1;
    box.begin[i] = std::clamp<int64_t>(begin, 0, axis.input);
    box.extent[i] = std::clamp<int64_t>(end, box.begin[i], axis.input) - box.begin[i];
  };
  ConvBox box;
  read(p_.axes[0], chunk.d, 1, box, 0);
  read(p_.axes[1], chunk.h, chunk.rows, box, 1);
  box.extent[2] = p_.axes[2].input;
  return box;
}

// Stores each tap as int16 beside the next tap of its row, or 0.
void DepthwiseConvolution::make_pairs(float* packed) const {
  const int64_t kernel = p_.axes[2].kernel;
  for (int64_t tap = 0; tap < p_.taps(); ++tap) {
    for (int64_t c = 0; c < pitch(); ++c) {
      float* const at = packed + tap * pitch() + c;
      const float next = tap % kernel + 1 < kernel ? at[pitch()] : 0;
      const auto to_int16 = [](float x) { return static_cast<uint16_t>(static_cast<int16_t>(x)); };
      *at = std::bit_cast<float>(uint32_t{to_int16(*at)} | uint32_t{to_int16(next)} << 16);
    }
  }
}

class DepthwiseConvolution::Run {
 public:
  Run(const DepthwiseConvolution& conv, const ConvCall& call) : c_(conv), p_(conv.p_), call_(call) {
    terms_ = c_.terms(call);
  }

  // `next`: the chunk that the thread is expected to run next, or null.
  void chunk(int64_t n, const Chunk& chunk, const Chunk* next) const {
    auto* scratch = thread_scratch(ScratchUse::task,
                                   static_cast<int64_t>(c_.scratch_box_ + 2 * c_.scratch_sums_));
    const int64_t size = c_.padded_.element_bytes;
    const auto* x =
        static_cast<const std::byte*>(call_.x) + n * p_.input_positions() * p_.channels * size;
    Source source{x, 0, 0, p_.axes[1].input};
    const bool whole = chunk.end - chunk.begin == p_.axes[2].output;  // whole output rows
    if (next != nullptr && next->d == chunk.d && whole) source.next = next->h;
    if (p_.x_layout == ActivationLayout::channels_first) {
      const ConvBox box = c_.box(chunk);
      copy_padded_box(p_, c_.padded_, box, x, scratch);
      source = {scratch, box.begin[0], box.begin[1], box.extent[1], 0, 0, false, -1};
    }
    const bool channels_first = p_.y_layout == ActivationLayout::channels_first;
    ConvEpilogue epilogue(call_, p_.is_integer() ? &terms_ : nullptr, n, channels_first);
    // Accumulators in memory: kChannels channels per pass.
    const bool at_once = !channels_first && epilogue.get().simple != nullptr;
    const int64_t step = at_once ? p_.channels : kChannels;
    for (int64_t c = 0; c < p_.channels; c += step) {
      const OutputRows out_rows{
          chunk.d, chunk.h, chunk.rows, chunk.begin, chunk.end, c, std::min(step, p_.channels - c)};
      channels_first ? by_channel(n, out_rows, source, scratch + c_.scratch_box_, epilogue)
                     : by_position(n, out_rows, source, scratch + c_.scratch_box_, epilogue);
    }
  }

 private:
  int64_t position(const OutputRows& out_rows, int64_t i) const {
    return (out_rows.d * p_.axes[1].output + out_rows.h + i) * p_.axes[2].output + out_rows.begin;
  }
  EpilogueTile tile() const {
    EpilogueTile tile;
    tile.integer_sums = p_.is_integer();
    return tile;
  }

  void by_position(int64_t n, const OutputRows& out_rows, const Source& x, std::byte* sums,
                   const ConvEpilogue& epilogue) const {
    const int64_t size = info(p_.y_type).bits / 8;
    auto* y = static_cast<std::byte*>(call_.y);
    if (const SimpleEpilogue* simple = epilogue.get().simple) {
      const int64_t first = position(out_rows, 0);
      c_.compute_rows(
          out_rows, x, static_cast<const float*>(call_.weights), call_.x_zero, *simple, first,
          y + ((n * p_.output_positions() + first) * p_.channels + out_rows.channel) * size,
          p_.axes[2].output * p_.channels * size, p_.channels * size);
      return;
    }
    const auto finish = finish_tile(c_.isa_);
    c_.sum_rows(
        out_rows, x, static_cast<const float*>(call_.weights), call_.x_zero, sums,
        [&](int64_t i, const void* row) {
          EpilogueTile t = tile();
          t.sums = row;
          t.sums_stride = kChannels;
          t.rows = out_rows.end - out_rows.begin;
          t.columns = out_rows.channels;
          t.row = position(out_rows, i);
          t.column = out_rows.channel;
          t.out = y + ((n * p_.output_positions() + t.row) * p_.channels + out_rows.channel) * size;
          t.out_stride = p_.channels * size;
          finish(epilogue.get(), t);
        });
  }

  void by_channel(int64_t n, const OutputRows& out_rows, const Source& x, std::byte* sums,
                  const ConvEpilogue& epilogue) const {
    const int64_t size = info(p_.y_type).bits / 8, width = out_rows.end - out_rows.begin;
    auto* y = static_cast<std::byte*>(call_.y);
    auto* all = sums + c_.scratch_sums_;  // [row][column][kChannels], then transposed
    const int64_t count = out_rows.count * width;
    for (int64_t i = 0; i < out_rows.count; ++i) {
      OutputRows one = out_rows;
      one.h += i;
      one.count = 1;
      c_.sum_rows(one, x, static_cast<const float*>(call_.weights), call_.x_zero,
                  all + i * width * kChannels * 4, [](int64_t, const void*) {});
    }
    transpose_matrix(4, all, kChannels, sums, count, count, out_rows.channels);
    EpilogueTile t = tile();
    t.sums = sums;
    t.sums_stride = count;
    t.rows = out_rows.channels;
    t.columns = count;
    t.row = out_rows.channel;
    t.column = position(out_rows, 0);
    t.out = y + ((n * p_.channels + out_rows.channel) * p_.output_positions() + t.column) * size;
    t.out_stride = p_.output_positions() * size;
    finish_tile(c_.isa_)(epilogue.get(), t);
  }

  const DepthwiseConvolution& c_;
  const ConvProblem& p_;
  const ConvCall& call_;
  IntegerTerms terms_;
};

void DepthwiseConvolution::run(const ConvCall& call) const {
  const Run run(*this, call);
  const auto count = static_cast<int64_t>(chunks_.size());
  parallel_for(call.pool, p_.batch * count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Chunk& chunk = chunks_[static_cast<size_t>(i % count)];
      run.chunk(i / count, chunk, i % count + 1 < count ? &chunk + 1 : nullptr);
    }
  });
}

}  // namespace lathe::cpu
