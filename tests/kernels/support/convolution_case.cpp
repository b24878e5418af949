// SPDX-License-Identifier: MIT
#include "tests/kernels/support/convolution_case.h"

#include <algorithm>
#include <cmath>

namespace lathe::cpu::test {

int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

namespace {

ConvAxis random_axis(Random& random, bool transposed) {
  ConvAxis axis;
  axis.kernel = pick(random, 1, pick(random, 0, 3) == 0 ? 7 : 3);
  axis.stride = pick(random, 0, 1) == 0 ? 1 : pick(random, 1, 3);
  axis.dilation = pick(random, 0, 2) == 0 ? pick(random, 1, 3) : 1;
  const int64_t span = (axis.kernel - 1) * axis.dilation + 1;
  axis.input = pick(random, 1, 20);
  axis.pad = pick(random, 0, span - 1);
  const int64_t end = pick(random, 0, span - 1);
  if (transposed) {
    const int64_t extra = pick(random, 0, axis.stride - 1);
    axis.output = (axis.input - 1) * axis.stride + span + extra - axis.pad - end;
    axis.output = std::max<int64_t>(1, axis.output);
  } else {
    axis.input = std::max(axis.input, span - axis.pad - end);
    axis.output = (axis.input + axis.pad + end - span) / axis.stride + 1;
  }
  return axis;
}

}  // namespace

ConvProblem random_problem(Random& random, const ConvLimits& limits) {
  for (;;) {
    ConvProblem p;
    p.batch = pick(random, 1, 2);
    p.transposed = limits.transposed && pick(random, 0, 3) == 0;
    const int64_t axes = pick(random, 1, 3);
    for (int64_t i = 3 - axes; i < 3; ++i)
      p.axes[static_cast<size_t>(i)] = random_axis(random, p.transposed);
    if (limits.depthwise) {
      p.groups = p.channels = p.outputs = pick(random, 1, 80);
    } else {
      p.groups = pick(random, 0, 2) == 0 ? pick(random, 1, 5) : 1;
      p.channels = p.groups * pick(random, 1, limits.channels);
      p.outputs = p.groups * pick(random, 1, limits.outputs);
    }
    const int64_t work = p.batch * p.output_positions() * p.taps() * p.outputs * p.group_channels();
    if (work <= limits.work) return p;
  }
}

int64_t weight_count(const ConvProblem& p) {
  return p.transposed ? p.channels * p.group_outputs() * p.taps()
                      : p.outputs * p.group_channels() * p.taps();
}
int64_t input_count(const ConvProblem& p) { return p.batch * p.channels * p.input_positions(); }
int64_t output_count(const ConvProblem& p) { return p.batch * p.outputs * p.output_positions(); }

int64_t memory_index(ActivationLayout layout, int64_t channels, int64_t positions, int64_t i) {
  if (layout == ActivationLayout::channels_first) return i;
  const int64_t position = i % positions, channel = i / positions % channels;
  return (i / positions / channels * positions + position) * channels + channel;
}

namespace {

// Input position that a tap of an output reads, or -1.
int64_t input_position(const ConvAxis& axis, bool transposed, int64_t output, int64_t tap) {
  int64_t at = output * axis.stride + tap * axis.dilation - axis.pad;
  if (transposed) {
    const int64_t scaled = output + axis.pad - tap * axis.dilation;
    if (scaled < 0 || scaled % axis.stride != 0) return -1;
    at = scaled / axis.stride;
  }
  return at >= 0 && at < axis.input ? at : -1;
}

struct Sum {
  double value = 0;
  double magnitude = 0;
};

Sum one_output(const ConvProblem& p, const std::vector<double>& x, const std::vector<double>& w,
               int64_t n, int64_t m, const std::array<int64_t, 3>& at) {
  const auto& [depth, height, width] = p.axes;
  const int64_t inputs = p.group_channels(), group = m / p.group_outputs();
  Sum sum;
  for (int64_t a = 0; a < depth.kernel; ++a) {
    const int64_t d = input_position(depth, p.transposed, at[0], a);
    for (int64_t b = 0; d >= 0 && b < height.kernel; ++b) {
      const int64_t h = input_position(height, p.transposed, at[1], b);
      for (int64_t e = 0; h >= 0 && e < width.kernel; ++e) {
        const int64_t v = input_position(width, p.transposed, at[2], e);
        if (v < 0) continue;
        const int64_t tap = (a * height.kernel + b) * width.kernel + e;
        for (int64_t c = 0; c < inputs; ++c) {
          const int64_t channel = group * inputs + c;
          const int64_t weight =
              p.transposed ? channel * p.group_outputs() + m % p.group_outputs() : m * inputs + c;
          const int64_t position = (d * height.input + h) * width.input + v;
          const double term =
              x[static_cast<size_t>((n * p.channels + channel) * p.input_positions() + position)] *
              w[static_cast<size_t>(weight * p.taps() + tap)];
          sum.value += term;
          sum.magnitude += std::abs(term);
        }
      }
    }
  }
  return sum;
}

}  // namespace

std::vector<double> naive_convolution(const ConvProblem& p, const std::vector<double>& x,
                                      const std::vector<double>& w,
                                      std::vector<double>* magnitude) {
  std::vector<double> y;
  if (magnitude != nullptr) magnitude->clear();
  for (int64_t n = 0; n < p.batch; ++n) {
    for (int64_t m = 0; m < p.outputs; ++m) {
      for (int64_t i = 0; i < p.output_positions(); ++i) {
        const int64_t width = p.axes[2].output, height = p.axes[1].output;
        const Sum sum =
            one_output(p, x, w, n, m, {i / width / height, i / width % height, i % width});
        y.push_back(sum.value);
        if (magnitude != nullptr) magnitude->push_back(sum.magnitude);
      }
    }
  }
  return y;
}

}  // namespace lathe::cpu::test
