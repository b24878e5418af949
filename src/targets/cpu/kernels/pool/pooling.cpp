// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/pool/pooling.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/pool/pooling_table.h"

namespace lathe::cpu {

[[gnu::weak]] const PoolingKernels& pooling_avx2();
[[gnu::weak]] const PoolingKernels& pooling_avx512();

namespace {

constexpr int64_t kLongestVector = 16;
constexpr int64_t kChunkElements = 16 << 10;  // elements of x per task
constexpr int64_t kBlockChannels = 32;        // least channels of a task: whole cache lines
constexpr int64_t kMostTasks = 64;            // into which a short image is cut

// Taps of one output along one axis.
struct Taps {
  int64_t first = 0;    // input position of the first valid tap
  int64_t valid = 0;    // taps inside the input
  int64_t counted = 0;  // divisor of a mean
};

Taps taps_of(const PoolingAxis& axis, int64_t output, bool count_include_pad) {
  const int64_t begin = output * axis.stride - axis.pad_begin;
  const auto taps_before = [&](int64_t end) {  // taps before position `end`
    return std::clamp<int64_t>((end - begin + axis.dilation - 1) / axis.dilation, 0, axis.kernel);
  };
  const int64_t skipped = begin < 0 ? taps_before(0) : 0;
  Taps out;
  out.first = begin + skipped * axis.dilation;
  out.valid = std::max<int64_t>(0, taps_before(axis.input) - skipped);
  out.counted = count_include_pad ? taps_before(axis.input + axis.pad_end) : out.valid;
  return out;
}

class Run {
 public:
  Run(const PoolingProblem& problem, const PoolingKernels& kernels, const PoolingTensor& x,
      const PoolingTensor& y)
      : p_(problem), kernels_(kernels), x_(x), y_(y), bytes_(info(problem.element).bits / 8) {
    const bool integer = problem.element == ElementType::i8 || problem.element == ElementType::u8;
    finish_ = {problem.average, integer, problem.ratio, static_cast<float>(problem.x_zero),
               static_cast<float>(problem.y_zero)};
    for (const PoolingAxis& axis : problem.axes) {
      is_global_ = is_global_ && axis.output == 1 && axis.kernel == axis.input &&
                   axis.pad_begin == 0 && axis.pad_end == 0 && axis.dilation == 1;
      input_ *= axis.input;
    }
  }

  void channels_first(int64_t images, ThreadPool* pool) const {
    const int64_t grain = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, input_));
    parallel_for(pool, images * p_.channels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t at = begin; at < end; ++at) {
        const int64_t image = at / p_.channels, channel = at % p_.channels;
        const auto* x = element(x_.data, image * x_.image + channel * x_.channel);
        auto* y = element(y_.data, image * y_.image + channel * y_.channel);
        is_global_ ? kernels_.whole(p_.element, x, input_, finish_, y) : plane(x, y);
      }
    });
  }

  void channels_last(int64_t images, ThreadPool* pool) const {
    const auto& [d, h, w] = p_.axes;
    const int64_t output_rows = d.output * h.output;
    // Global pooling has one row: it is cut by channels too.
    const int64_t rows = std::max<int64_t>(1, images * output_rows);
    const int64_t blocks =
        std::clamp<int64_t>(p_.channels / kBlockChannels, 1, (kMostTasks - 1) / rows + 1);
    const int64_t block = ((p_.channels - 1) / blocks / kBlockChannels + 1) * kBlockChannels;
    const int64_t work = std::max<int64_t>(
        1, w.output * std::min(block, p_.channels) * w.kernel * h.kernel * d.kernel);
    const int64_t grain = std::max<int64_t>(1, kChunkElements / work);
    parallel_for(pool, images * output_rows * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / blocks, first = i % blocks * block;
        if (first >= p_.channels) continue;
        row_of_points(at / output_rows, at % output_rows, first,
                      std::min(block, p_.channels - first));
      }
    });
  }

 private:
  std::byte* element(void* data, int64_t at) const {
    return static_cast<std::byte*>(data) + at * bytes_;
  }

  // Computes one plane row by row.
  void plane(const std::byte* x, std::byte* y) const {
    const auto& [d, h, w] = p_.axes;
    PoolingRow row;
    row.input = w.input;
    row.outputs = w.output;
    row.kernel = w.kernel;
    row.stride = w.stride;
    row.dilation = w.dilation;
    row.pad_begin = w.pad_begin;
    row.strides[0] = h.input * w.input * d.dilation;
    row.strides[1] = w.input * h.dilation;
    row.finish = finish_;
    // Kernels read whole vectors of outputs.
    const int64_t outputs = (w.output + kLongestVector - 1) / kLongestVector * kLongestVector;
    row.buffer_size = std::max(w.pad_begin + w.input, outputs * w.stride + w.kernel * w.dilation);
    float* valid = nullptr;
    float* counted = nullptr;
    const auto place = [&](ScratchLayout memory) {
      row.buffer = memory.take<float>(row.buffer_size + kLongestVector);
      valid = memory.take<float>(w.output);
      counted = memory.take<float>(w.output);
      return memory.bytes();
    };
    place(ScratchLayout(thread_scratch(ScratchUse::task, place(ScratchLayout()))));
    for (int64_t i = 0; i < w.output; ++i) {
      const Taps taps = taps_of(w, i, p_.count_include_pad);
      valid[i] = static_cast<float>(taps.valid);
      counted[i] = static_cast<float>(taps.counted);
    }
    row.valid = valid;
    row.counted = counted;
    for (int64_t i = 0; i < d.output * h.output; ++i) {
      const Taps outer = taps_of(d, i / h.output, p_.count_include_pad);
      const Taps inner = taps_of(h, i % h.output, p_.count_include_pad);
      row.taps[0] = outer.valid;
      row.taps[1] = inner.valid;
      row.outer_valid = static_cast<float>(outer.valid * inner.valid);
      row.outer_counted = static_cast<float>(outer.counted * inner.counted);
      row.x = x + (outer.first * h.input + inner.first) * w.input * bytes_;
      row.y = y + i * w.output * bytes_;
      kernels_.row(p_.element, row);
    }
  }

  // Computes `channels` channels from `first` on.
  void row_of_points(int64_t image, int64_t at, int64_t first, int64_t channels) const {
    const auto& [d, h, w] = p_.axes;
    const Taps outer = taps_of(d, at / h.output, p_.count_include_pad);
    const Taps inner = taps_of(h, at % h.output, p_.count_include_pad);
    PoolingPoint point;
    point.channels = channels;
    point.finish = finish_;
    point.taps[0] = outer.valid;
    point.taps[1] = inner.valid;
    point.strides[0] = d.dilation * h.input * w.input * x_.channel;
    point.strides[1] = h.dilation * w.input * x_.channel;
    point.strides[2] = w.dilation * x_.channel;
    const int64_t first_row = (outer.first * h.input + inner.first) * w.input;
    for (int64_t i = 0; i < w.output; ++i) {
      const Taps taps = taps_of(w, i, p_.count_include_pad);
      point.taps[2] = taps.valid;
      point.valid = static_cast<float>(outer.valid * inner.valid * taps.valid);
      point.counted = static_cast<float>(outer.counted * inner.counted * taps.counted);
      point.x = element(x_.data, image * x_.image + (first_row + taps.first) * x_.channel + first);
      point.y = element(y_.data, image * y_.image + (at * w.output + i) * y_.channel + first);
      kernels_.point(p_.element, point);
    }
  }

  const PoolingProblem& p_;
  const PoolingKernels& kernels_;
  const PoolingTensor& x_;
  const PoolingTensor& y_;
  const int64_t bytes_;
  PoolingFinish finish_;
  bool is_global_ = true;
  int64_t input_ = 1;  // positions of an image
};

}  // namespace

std::string Pooling::refuse(const PoolingProblem& p) {
  if (p.needs_indices) return "indices of the maxima are not supported";
  switch (p.element) {
    case ElementType::f32:
    case ElementType::bf16:
    case ElementType::f16:
    case ElementType::i8:
    case ElementType::u8:
      break;
    default:
      return fmt::format("elements are {}, expected f32, bf16, f16, i8 or u8",
                         to_string(p.element));
  }
  for (const PoolingAxis& axis : p.axes) {
    if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.pad_begin < 0 ||
        axis.stride > (1 << 20) || axis.dilation > (1 << 20)) {
      return fmt::format(
          "kernel {}, stride {}, dilation {} and pad {}: expected at least 1, at "
          "most {}, and no negative pad",
          axis.kernel, axis.stride, axis.dilation, axis.pad_begin, 1 << 20);
    }
  }
  return {};
}

Pooling::Pooling(const PoolingProblem& problem, Isa isa)
    : problem_(problem),
      kernels_(&in_build(isa >= Isa::avx512 ? pooling_avx512 : pooling_avx2, isa)()) {}

void Pooling::run(const PoolingTensor& x, const PoolingTensor& y, int64_t images,
                  ThreadPool* pool) const {
  const Run run(problem_, *kernels_, x, y);
  problem_.channels_last ? run.channels_last(images, pool) : run.channels_first(images, pool);
}

}  // namespace lathe::cpu
