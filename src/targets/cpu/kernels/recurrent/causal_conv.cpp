// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/recurrent/causal_conv.h"

#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "targets/cpu/kernels/common/scratch.h"
#include "targets/cpu/kernels/recurrent/causal_conv_table.h"

namespace lathe::cpu {

[[gnu::weak]] extern const CausalConvKernels kCausalConvAvx2, kCausalConvAvx512;

namespace {

constexpr int64_t kBlock = 256;  // channels of a task, so that its working set stays in L1
constexpr int64_t kMinTaskElements = 2048;  // elements that a task should have in decode
constexpr int64_t kTile = 16;               // rows that are transposed together

}  // namespace

CausalConvolution::CausalConvolution(const CausalConvProblem& problem, const float* w,
                                     const float* bias, Isa isa)
    : problem_(problem),
      kernels_(in_build(isa >= Isa::avx512 ? &kCausalConvAvx512 : &kCausalConvAvx2, isa)),
      w_(static_cast<size_t>(problem.taps * problem.channels)),
      bias_(static_cast<size_t>(problem.channels), 0.0F) {
  kernels_->spread(w, problem.channels, problem.taps, w_.data(), problem.channels);
  if (bias != nullptr) std::copy_n(bias, problem.channels, bias_.data());
}

void CausalConvolution::run(std::span<const CausalConvRows> sequences, ThreadPool* pool) const {
  const int64_t blocks = (problem_.channels + kBlock - 1) / kBlock;
  int64_t rows = 0;
  for (const CausalConvRows& x : sequences) rows += x.rows;
  const int64_t each = std::max<int64_t>(kBlock * rows / std::ssize(sequences), 1);
  const int64_t grain = std::max<int64_t>(kMinTaskElements / each, 1);
  parallel_for(pool, std::ssize(sequences) * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const CausalConvRows& x = sequences[static_cast<size_t>(at / blocks)];
      const int64_t first = at % blocks * kBlock;
      const int64_t count = std::min(kBlock, problem_.channels - first);
      if (x.x_channel == 1) {
        run_channels(x, first, count);
      } else {
        run_rows(x, first, count);
      }
    }
  });
}

// Contiguous channels: computes row by row and reads the past's rows and x in place.
void CausalConvolution::run_channels(const CausalConvRows& x, int64_t first, int64_t count) const {
  const int64_t state = problem_.state(), taps = problem_.taps;
  ScratchLayout sizes;
  sizes.take<float>(state * kBlock);
  sizes.take<const float*>(std::max(taps, state));
  const bool transposes = x.y_channel != 1;
  sizes.take<float>(transposes ? kTile * kBlock : 0);
  ScratchLayout layout(thread_scratch(ScratchUse::task, sizes.bytes()));
  auto* held = layout.take<float>(state * kBlock);
  auto* from = layout.take<const float*>(std::max(taps, state));
  auto* tile = layout.take<float>(transposes ? kTile * kBlock : 0);
  if (x.past == nullptr) {
    std::fill_n(held, state * kBlock, 0.0F);
  } else {
    kernels_->spread(x.past + first * state, count, state, held, kBlock);
  }
  const auto row = [&](int64_t at) {
    return at < state ? held + at * kBlock : x.x + (at - state) * x.x_row + first;
  };
  for (int64_t t = 0; t < x.rows; ++t) {
    for (int64_t j = 0; j < taps; ++j) from[j] = row(t + j * problem_.dilation);
    float* y = transposes ? tile + t % kTile * kBlock : x.y + t * x.y_row + first;
    kernels_->channels(from, w_.data() + first, problem_.channels, taps, bias_.data() + first,
                       problem_.silu, y, count);
    const int64_t done = t % kTile + 1;
    if (!transposes || (done < kTile && t + 1 < x.rows)) continue;
    float* to = x.y + (t + 1 - done) * x.y_row + first * x.y_channel;
    for (int64_t c = 0; c < count; ++c) {
      for (int64_t r = 0; r < done; ++r) to[c * x.y_channel + r * x.y_row] = tile[r * kBlock + c];
    }
  }
  for (int64_t t = 0; t < state; ++t) from[t] = row(x.rows + t);
  kernels_->collect(from, count, state, x.present + first * state);
}

// Other layouts: copies each channel's past and rows into one buffer.
void CausalConvolution::run_rows(const CausalConvRows& x, int64_t first, int64_t count) const {
  const int64_t state = problem_.state();
  const bool dense = x.y_row == 1;
  const int64_t bytes = (state + 2 * x.rows) * static_cast<int64_t>(sizeof(float));
  auto* buffer = reinterpret_cast<float*>(thread_scratch(ScratchUse::task, bytes));
  for (int64_t c = first; c < first + count; ++c) {
    if (x.past == nullptr) {
      std::fill_n(buffer, state, 0.0F);
    } else {
      std::copy_n(x.past + c * state, state, buffer);
    }
    const float* from = x.x + c * x.x_channel;
    for (int64_t t = 0; t < x.rows; ++t) buffer[state + t] = from[t * x.x_row];
    float* to = x.y + c * x.y_channel;
    float* y = dense ? to : buffer + state + x.rows;
    kernels_->rows(buffer, w_.data() + c, problem_.channels, problem_.taps, problem_.dilation,
                   bias_[static_cast<size_t>(c)], problem_.silu, y, x.rows);
    for (int64_t t = 0; t < x.rows && !dense; ++t) to[t * x.y_row] = y[t];
    std::copy_n(buffer + x.rows, state, x.present + c * state);
  }
}

}  // namespace lathe::cpu
