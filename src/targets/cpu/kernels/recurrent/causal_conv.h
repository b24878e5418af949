// SPDX-License-Identifier: MIT
// Causal depthwise convolution with a state: few taps, many channels. Accumulators add the taps in
// ascending order by fma, whether vectors run along channels or along rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

struct CausalConvKernels;

// y[t][c] = f(bias[c] + Σ_j w[c][j] · s[t + j · dilation][c]), s: the past, then x.
struct CausalConvProblem {
  int64_t channels = 0;
  int64_t taps = 1;
  int64_t dilation = 1;
  bool silu = false;

  int64_t state() const { return (taps - 1) * dilation; }
};

// Rows of one sequence; strides in elements. Contiguous channels in x and y are fastest, then
// contiguous rows.
struct CausalConvRows {
  int64_t rows = 0;
  const float* x = nullptr;
  int64_t x_row = 0;
  int64_t x_channel = 0;
  float* y = nullptr;
  int64_t y_row = 0;
  int64_t y_channel = 0;
  const float* past = nullptr;  // [channels, state]; null: zeros
  float* present = nullptr;     // [channels, state]; must not overlap `past`
};

class CausalConvolution {
 public:
  // w [channels, taps], bias [channels] or null.
  CausalConvolution(const CausalConvProblem& problem, const float* w, const float* bias, Isa isa);

  const CausalConvProblem& problem() const { return problem_; }
  void run(std::span<const CausalConvRows> sequences, ThreadPool* pool) const;

 private:
  void run_channels(const CausalConvRows& x, int64_t first, int64_t count) const;
  void run_rows(const CausalConvRows& x, int64_t first, int64_t count) const;

  CausalConvProblem problem_;
  const CausalConvKernels* kernels_;
  std::vector<float> w_;     // [taps, channels]
  std::vector<float> bias_;  // zeros without a bias
};

}  // namespace lathe::cpu
