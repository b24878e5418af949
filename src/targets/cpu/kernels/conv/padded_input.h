// SPDX-License-Identifier: MIT
// Copies a box of input positions to dense channels-last memory with explicit padding. Each group's
// channels are padded to the GEMM kernel's k. A tap is then a constant offset.
#pragma once

#include <cstdint>

#include "targets/cpu/kernels/conv/conv_problem.h"

namespace lathe::cpu {

// Positions begin to begin + extent of each axis; some may be outside the input.
struct ConvBox {
  std::array<int64_t, kConvAxes> begin{};
  std::array<int64_t, kConvAxes> extent{};
  int64_t positions() const { return extent[0] * extent[1] * extent[2]; }
};

struct PaddedInput {
  int64_t group_pitch = 1;  // elements per group and position, at least the group's channels
  int element_bytes = 4;
  int padding = 0;  // value of positions outside the input, 8-bit elements only; others are 0
  int flip = 0;     // XORed with every byte, 8-bit elements only: 0x80 converts i8 to u8
};

// `x` is one image; `to` holds box.positions() * groups * group_pitch elements. Channels beyond the
// group's are zero.
void copy_padded_box(const ConvProblem& problem, const PaddedInput& padded, const ConvBox& box,
                     const void* x, void* to);

}  // namespace lathe::cpu
