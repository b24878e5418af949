// SPDX-License-Identifier: MIT
// Convolution as its dimensions, and its decomposition into shifted GEMMs.
//
// y[n, o…, m] = sum over taps k… and channels c of x[n, position(o, k)…, c] * w[m, c, k…]. A
// convolution reads position o * stride + k * dilation - pad; a transposed convolution reads every
// position i with i * stride + k * dilation - pad = o. Both are lists of parts: within a part,
// output q reads q * step + offset(tap). A transposed convolution has one part per residue of the
// stride.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/element_type.h"

namespace lathe::cpu {

// One spatial axis. `output` is explicit and implies the padding at the end.
struct ConvAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad = 0;  // at the start
};

inline constexpr int kConvAxes = 3;

// Memory layout of an activation [n, channels, spatial…].
enum class ActivationLayout { channels_last, channels_first };

struct ConvProblem {
  int64_t batch = 1;
  int64_t channels = 1;  // of x, all groups
  int64_t outputs = 1;   // channels of y, all groups
  int64_t groups = 1;
  std::array<ConvAxis, kConvAxes> axes;  // depth, height, width; absent axes are 1
  bool scales_x = false;                 // pointwise only: each image and channel of x has a factor
  bool transposed = false;  // transposed convolution: weights [channels, outputs / groups, kernel…]
  ElementType x_type = ElementType::f32;  // f32, bf16, u8, i8
  ElementType y_type = ElementType::f32;
  ActivationLayout x_layout = ActivationLayout::channels_last;
  ActivationLayout y_layout = ActivationLayout::channels_last;

  int64_t group_channels() const { return channels / groups; }
  int64_t group_outputs() const { return outputs / groups; }
  int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
  int64_t input_positions() const { return axes[0].input * axes[1].input * axes[2].input; }
  int64_t output_positions() const { return axes[0].output * axes[1].output * axes[2].output; }
  bool is_integer() const { return x_type == ElementType::u8 || x_type == ElementType::i8; }
  // True if every output reads exactly the input position with its index: a plain GEMM.
  bool is_pointwise() const;
  // "1x64x56x56 k3x3 s1x1 o64 f32", for messages and tables.
  std::string text() const;
};

// Throws InvalidArgument for negative sizes, empty kernels, and groups that do not divide the
// channels.
void check_problem(const ConvProblem& problem);

struct ConvTap {
  int64_t kernel = 0;  // index along the kernel axis
  int64_t offset = 0;  // position read by output q = 0
};

// One axis of a part: outputs begin, begin + stride, …; output q reads q * step + offset.
struct ConvPartAxis {
  int64_t begin = 0;
  int64_t stride = 1;
  int64_t count = 0;
  int64_t step = 1;
  std::vector<ConvTap> taps;  // ascending offsets; empty if nothing is read
};

// Taps [first, second) of an axis that read inside the input for an output.
using ConvTaps = std::pair<size_t, size_t>;
ConvTaps taps_inside(const ConvPartAxis& axis, int64_t input, int64_t output);

struct ConvPart {
  std::array<ConvPartAxis, kConvAxes> axes;
  int64_t taps() const;
  int64_t outputs() const { return axes[0].count * axes[1].count * axes[2].count; }
};

// Parts of one axis, without empty ones.
std::vector<ConvPartAxis> axis_parts(const ConvAxis& axis, bool transposed);
// All combinations of the axes' parts.
std::vector<ConvPart> conv_parts(const ConvProblem& problem);

}  // namespace lathe::cpu
