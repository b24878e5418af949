// SPDX-License-Identifier: MIT
#include "targets/cpu/kernels/conv/conv_problem.h"

#include <algorithm>

#include "base/error.h"

namespace lathe::cpu {

bool ConvProblem::is_pointwise() const {
  return std::all_of(axes.begin(), axes.end(), [](const ConvAxis& axis) {
    return axis.kernel == 1 && axis.stride == 1 && axis.pad == 0 && axis.output == axis.input;
  });
}

std::string ConvProblem::text() const {
  const auto [d, h, w] = axes;
  std::string text =
      fmt::format("{}x{}x{}x{}x{} k{}x{}x{} s{}x{}x{} o{}", batch, channels, d.input, h.input,
                  w.input, d.kernel, h.kernel, w.kernel, d.stride, h.stride, w.stride, outputs);
  if (groups != 1) text += fmt::format(" g{}", groups);
  if (transposed) text += " transposed";
  return text + fmt::format(" {}", to_string(x_type));
}

void check_problem(const ConvProblem& p) {
  check(p.groups > 0 && p.channels % p.groups == 0 && p.outputs % p.groups == 0,
        ErrorKind::invalid_argument, "convolution: {} channels and {} outputs in {} groups",
        p.channels, p.outputs, p.groups);
  for (const ConvAxis& axis : p.axes) {
    check(axis.kernel > 0 && axis.stride > 0 && axis.dilation > 0 && axis.input >= 0 &&
              axis.output >= 0 && axis.pad >= 0,
          ErrorKind::invalid_argument,
          "convolution: input {}, output {}, kernel {}, stride {}, dilation {}, pad {}", axis.input,
          axis.output, axis.kernel, axis.stride, axis.dilation, axis.pad);
  }
}

int64_t ConvPart::taps() const {
  return static_cast<int64_t>(axes[0].taps.size() * axes[1].taps.size() * axes[2].taps.size());
}

ConvTaps taps_inside(const ConvPartAxis& axis, int64_t input, int64_t output) {
  const auto before = [&](int64_t end) {
    return static_cast<size_t>(
        std::count_if(axis.taps.begin(), axis.taps.end(),
                      [&](const ConvTap& tap) { return output * axis.step + tap.offset < end; }));
  };
  return {before(0), before(input)};
}

std::vector<ConvPartAxis> axis_parts(const ConvAxis& axis, bool transposed) {
  std::vector<ConvPartAxis> parts;
  if (!transposed) {
    ConvPartAxis part{0, 1, axis.output, axis.stride, {}};
    for (int64_t k = 0; k < axis.kernel; ++k)
      part.taps.push_back({k, k * axis.dilation - axis.pad});
    if (axis.output > 0) parts.push_back(std::move(part));
    return parts;
  }
  // Output o = begin + q * stride meets tap k at i = q + (begin + pad - k * dilation) / stride.
  for (int64_t begin = 0; begin < std::min(axis.stride, axis.output); ++begin) {
    ConvPartAxis part{begin, axis.stride, (axis.output - begin - 1) / axis.stride + 1, 1, {}};
    for (int64_t k = axis.kernel; k-- > 0;) {
      const int64_t scaled = begin + axis.pad - k * axis.dilation;
      if (scaled % axis.stride == 0) part.taps.push_back({k, scaled / axis.stride});
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<ConvPart> conv_parts(const ConvProblem& problem) {
  std::vector<ConvPart> parts;
  for (const ConvPartAxis& d : axis_parts(problem.axes[0], problem.transposed))
    for (const ConvPartAxis& h : axis_parts(problem.axes[1], problem.transposed))
      for (const ConvPartAxis& w : axis_parts(problem.axes[2], problem.transposed))
        parts.push_back({{d, h, w}});
  return parts;
}

}  // namespace lathe::cpu
