// SPDX-License-Identifier: MIT
// One dense computation in words: what our kernels and the peers' processes are both given.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::bench {

// A line such as "conv bf16 relu bias=1 ih=56 iw=56 ic=64 oc=256 n=1": kind, element type,
// activation, then numbers by name, 0 where they are not given.
//
// matmul: batch × (m × k times k × n); weights=1 where b is constant; bias.
// pair: a pointwise and a depthwise convolution in the order that pointwise_first says; n, ic, mid,
// oc, ih, iw, kernel, strides and pads of the depthwise one; the second's activation is
// `activations()[then]`; both have biases.
// conv: n, g groups, ic, oc, ih, iw, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr; bias; sum (residual);
// direct=1: in our direct form, even where Winograd's would be chosen; far=1: weights from memory.
struct Problem {
  std::string kind;
  std::string type;        // "f32", "bf16", "int8"
  std::string activation;  // "none", "relu", "gelu", "silu", "hard_swish"
  std::map<std::string, int64_t, std::less<>> numbers;

  int64_t operator[](std::string_view name) const;
  std::string line() const;
  static Problem parse(std::string_view line);
  double flops() const;   // multiplications and additions
  int64_t bytes() const;  // of operands and result
  friend bool operator==(const Problem&, const Problem&) = default;
};

std::span<const std::string_view> activations();
// One half of a pair, as a convolution.
Problem pair_half(const Problem& pair, bool first);

// Extents of a convolution's result.
int64_t output_height(const Problem& p);
int64_t output_width(const Problem& p);

// Operands are rotated through so many copies that no level-2 cache holds them all.
int64_t rotations(const Problem& p);
// Copies of the weights: as many, or, with far=1, so many that no cache holds them.
int64_t weight_rotations(const Problem& p);

}  // namespace lathe::bench
