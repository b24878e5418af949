// SPDX-License-Identifier: MIT
// Pseudo-random operands, equal in all processes: element `i` of operand `operand`.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lathe::bench {

// Uniform in [0, 1).
inline double uniform(uint64_t operand, uint64_t i) {
  uint64_t x = (i + 1) * 0x9E3779B97F4A7C15ULL ^ (operand + 1) * 0xD1B54A32D192ED03ULL;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ULL;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ULL;
  return static_cast<double>((x ^ (x >> 32)) >> 40) * 0x1p-24;
}

enum class Range : uint8_t {
  real,            // [-1, 1), exact in bf16
  unsigned8,       // 0 … 255
  signed8,         // -127 … 127
  small_unsigned,  // 0 … 15: residuals
};

inline std::vector<float> operand_values(uint64_t operand, int64_t count, Range range) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    const double u = uniform(operand, i);
    const auto whole = [&](double steps) { return static_cast<int64_t>(u * steps); };
    if (range == Range::real) out[i] = static_cast<float>(whole(256) - 128) / 128;
    if (range == Range::unsigned8) out[i] = static_cast<float>(whole(256));
    if (range == Range::small_unsigned) out[i] = static_cast<float>(whole(16));
    if (range == Range::signed8) out[i] = static_cast<float>(whole(255) - 127);
  }
  return out;
}

// Scales of the columns of an int8 GEMM of K = depth, chosen for results of a few dozen steps.
inline std::vector<float> int8_scales(int64_t columns, int64_t depth) {
  std::vector<float> out(static_cast<size_t>(columns));
  const float base = 0.004F / std::sqrt(static_cast<float>(depth));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = base * (1 + static_cast<float>(uniform(9, i)) / 4);
  }
  return out;
}

}  // namespace lathe::bench
