// SPDX-License-Identifier: MIT
// Random convolutions, and a plain loop that says what they mean.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "targets/cpu/kernels/conv/conv_problem.h"

namespace lathe::cpu::test {

using Random = std::mt19937_64;
int64_t pick(Random& random, int64_t low, int64_t high);  // both included

struct ConvLimits {
  bool depthwise = false;
  bool transposed = true;
  int64_t channels = 40;   // per group at most
  int64_t outputs = 70;    // per group at most
  int64_t work = 1 << 21;  // products at most
};
// Any number of axes, strides, dilations, groups, pads; extents small enough for the plain loop.
ConvProblem random_problem(Random& random, const ConvLimits& limits);

// Weights [outputs, channels / groups, kernel…], or [channels, outputs / groups, kernel…] of a
// transposed convolution.
int64_t weight_count(const ConvProblem& problem);
// Values of x, and of the result, in the order [n, channel, depth, height, width].
int64_t input_count(const ConvProblem& problem);
int64_t output_count(const ConvProblem& problem);

// Sums in the order of the definition; `magnitude`, if any, gets the sums of absolute products.
std::vector<double> plain_convolution(const ConvProblem& problem, const std::vector<double>& x,
                                      const std::vector<double>& w,
                                      std::vector<double>* magnitude = nullptr);

// Where value i, counted as [n, channel, positions…], lies in a memory of that layout.
int64_t memory_index(ActivationLayout layout, int64_t channels, int64_t positions, int64_t i);

}  // namespace lathe::cpu::test
