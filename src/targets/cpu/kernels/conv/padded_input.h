// SPDX-License-Identifier: MIT
// A box of input positions as dense channels-last memory: padding written out, channels of a group
// padded to what the product's kernel reads. Every tap of every output inside the box is then one
// displacement.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/conv/conv_problem.h"

namespace lathe::cpu {

// Positions begin to begin + extent of each axis, some of them outside the input.
struct ConvBox {
  std::array<int64_t, kConvAxes> begin{};
  std::array<int64_t, kConvAxes> extent{};
  int64_t positions() const { return extent[0] * extent[1] * extent[2]; }
};

struct PaddedInput {
  int64_t group_pitch = 1;  // elements per group and position, at least the group's channels
  int element_bytes = 4;
  int padding = 0;  // value of positions outside, where elements are bytes; else they are 0
  int flip = 0;     // exclusive-or of every byte, where elements are bytes: i8 to u8 is 0x80
};

// `x` is one image; `to` holds box.positions() * groups * group_pitch elements. Channels beyond the
// group's are zeros.
void stage_box(const ConvProblem& problem, const PaddedInput& stage, const ConvBox& box,
               const void* x, void* to);

}  // namespace lathe::cpu
