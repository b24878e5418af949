// SPDX-License-Identifier: MIT
// Random convolutions and their naive reference.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "targets/cpu/kernels/conv/conv_problem.h"

namespace lathe::cpu::test {

using Random = std::mt19937_64;
int64_t pick(Random& random, int64_t low, int64_t high);  // inclusive

struct ConvLimits {
  bool depthwise = false;
  bool transposed = true;
  int64_t channels = 40;   // per group at most
  int64_t outputs = 70;    // per group at most
  int64_t work = 1 << 21;  // multiplications at most
};
// Random axes, strides, dilations, groups and padding; small enough for the naive loop.
ConvProblem random_problem(Random& random, const ConvLimits& limits);

// [outputs, channels / groups, kernel…]; transposed: [channels, outputs / groups, kernel…].
int64_t weight_count(const ConvProblem& problem);
// Elements of x and of y, [n, channel, depth, height, width].
int64_t input_count(const ConvProblem& problem);
int64_t output_count(const ConvProblem& problem);

// Accumulators in f64; `magnitude`, unless null, receives the sum of absolute terms.
std::vector<double> naive_convolution(const ConvProblem& problem, const std::vector<double>& x,
                                      const std::vector<double>& w,
                                      std::vector<double>* magnitude = nullptr);

// Offset in `layout` of element i of [n, channel, positions…].
int64_t memory_index(ActivationLayout layout, int64_t channels, int64_t positions, int64_t i);

}  // namespace lathe::cpu::test
