// SPDX-License-Identifier: MIT
// A problem as one line of text, for Lathe's kernels and the peer processes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::bench {

// A line such as "conv bf16 relu bias=1 ih=56 iw=56 ic=64 oc=256 n=1": kind, element type,
// activation, then named parameters, by default 0.
//
// matmul: batch × ([m, k] · [k, n]); weights=1: B is constant; bias.
// conv: n, g groups, ic, oc, ih, iw, kh, kw, sh, sw, dh, dw, pt, pl, pb, pr; bias; sum (residual);
// direct=1: direct form, also where Winograd would be selected; far=1: cold weights, from memory.
struct Problem {
  std::string kind;
  std::string type;        // "f32", "bf16", "int8"
  std::string activation;  // "none", "relu", "gelu", "silu", "hard_swish"
  std::map<std::string, int64_t, std::less<>> parameters;

  int64_t operator[](std::string_view name) const;
  std::string line() const;
  static Problem parse(std::string_view line);
  double flops() const;   // multiplications and additions
  int64_t bytes() const;  // operands and result
  friend bool operator==(const Problem&, const Problem&) = default;
};

// Height and width of a convolution's result.
int64_t output_height(const Problem& p);
int64_t output_width(const Problem& p);

// Number of copies of the operands, together larger than L2.
int64_t rotations(const Problem& p);
// Number of copies of the weights: rotations(), or, with far=1, together larger than L3.
int64_t weight_rotations(const Problem& p);

}  // namespace lathe::bench
