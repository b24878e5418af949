// SPDX-License-Identifier: MIT
// Body of token_ops_*.cpp. The compiler vectorises exponentials, with the same order of additions
// for every vector length.
#pragma once

#include "targets/cpu/kernels/elementwise/token_ops_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

constexpr float kBelowAll = -__builtin_inff();

inline float larger(float x, float most) { return x > most ? x : most; }  // of NaN: `most`

float block_maxima(const float* x, int64_t count, float* maxima) {
  float largest = kBelowAll;
  int64_t i = 0;
  for (; i + TokenOps::kBlock <= count; i += TokenOps::kBlock) {
    F32 most = set1(kBelowAll);
    for (int64_t j = i; j < i + TokenOps::kBlock; j += kLanes) most = max(load(x + j), most);
    maxima[i / TokenOps::kBlock] = max_lanes(most);
    largest = larger(maxima[i / TokenOps::kBlock], largest);
  }
  if (i < count) {
    float most = kBelowAll;
    for (int64_t j = i; j < count; ++j) most = larger(x[j], most);
    maxima[i / TokenOps::kBlock] = most;
    largest = larger(most, largest);
  }
  return largest;
}

// exp(y) for y <= 0, to 1 ulp: 2^n · exp(r) with |r| <= ln(2) / 2. Below -708 and of NaN: 0. Every
// multiplication is part of an fma, so that no compiler contracts it differently.
inline double exp_below(double y) {
  constexpr double kShifter = 0x1.8p52;
  const bool is_zero = !(y >= -708);
  const double x = is_zero ? -708.0 : y;
  const double shifted = __builtin_fma(x, 0x1.71547652b82fep0, kShifter);
  const double n = shifted - kShifter;
  double r = __builtin_fma(n, -0x1.62e42fefa39efp-1, x);
  r = __builtin_fma(n, -0x1.abc9e3b39803fp-56, r);
  double p = 1.0 / 6227020800;  // Taylor's series, of degree 13
  p = __builtin_fma(p, r, 1.0 / 479001600);
  p = __builtin_fma(p, r, 1.0 / 39916800);
  p = __builtin_fma(p, r, 1.0 / 3628800);
  p = __builtin_fma(p, r, 1.0 / 362880);
  p = __builtin_fma(p, r, 1.0 / 40320);
  p = __builtin_fma(p, r, 1.0 / 5040);
  p = __builtin_fma(p, r, 1.0 / 720);
  p = __builtin_fma(p, r, 1.0 / 120);
  p = __builtin_fma(p, r, 1.0 / 24);
  p = __builtin_fma(p, r, 1.0 / 6);
  p = __builtin_fma(p, r, 0.5);
  p = __builtin_fma(p, r, 1.0);
  p = __builtin_fma(p, r, 1.0);
  // The low bits of `shifted` are n, which is added to the exponent.
  int64_t bits, exponent;
  __builtin_memcpy(&bits, &p, sizeof bits);
  __builtin_memcpy(&exponent, &shifted, sizeof exponent);
  bits += static_cast<int64_t>(static_cast<uint64_t>(exponent) << 52);
  __builtin_memcpy(&p, &bits, sizeof p);
  return is_zero ? 0.0 : p;
}

double exp_sum(const float* x, int64_t count, double shift) {
  constexpr int kPartials = 16;
  double partial[kPartials] = {};
  int64_t i = 0;
  for (; i + kPartials <= count; i += kPartials) {
#pragma clang loop vectorize(enable)
    for (int k = 0; k < kPartials; ++k) {
      partial[k] += exp_below(static_cast<double>(x[i + k]) - shift);
    }
  }
  for (int k = 0; i < count; ++i, ++k) {
    partial[k] += exp_below(static_cast<double>(x[i]) - shift);
  }
  for (int width = kPartials / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) partial[k] += partial[k + width];
  }
  return partial[0];
}

constexpr TokenOps kTokenOps{block_maxima, exp_sum};

}  // namespace
}  // namespace lathe::cpu
