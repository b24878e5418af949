// SPDX-License-Identifier: MIT
// Body of reduce_ops_*.cpp: loops that the compiler vectorises, with the same order of additions
// for every vector length.
#pragma once

#include "targets/cpu/kernels/elementwise/reduce_ops_table.h"

namespace lathe::cpu {
namespace {

constexpr int kPartials = 32;

inline double fold_add(double a, float x) { return a + static_cast<double>(x); }
inline double fold_add_abs(double a, float x) { return a + __builtin_fabs(static_cast<double>(x)); }
inline double fold_add_square(double a, float x) {
  const auto wide = static_cast<double>(x);
  return a + wide * wide;  // the square is exact
}
template <class T>
inline T fold_max(T a, T x) {
  return x > a || x != x ? x : a;
}
template <class T>
inline T fold_min(T a, T x) {
  return x < a || x != x ? x : a;
}

template <class T, class F, class G>
inline __attribute__((always_inline)) double fold_row_by(const float* x, int64_t count, T start,
                                                         F&& fold, G&& combine) {
  T partial[kPartials];
  for (T& each : partial) each = start;
  int64_t i = 0;
  for (; i + kPartials <= count; i += kPartials) {
#pragma clang loop vectorize(enable)
    for (int k = 0; k < kPartials; ++k) partial[k] = fold(partial[k], x[i + k]);
  }
  for (int k = 0; i < count; ++i, ++k) partial[k] = fold(partial[k], x[i]);
  for (int width = kPartials / 2; width > 0; width /= 2) {
    for (int k = 0; k < width; ++k) partial[k] = combine(partial[k], partial[k + width]);
  }
  return static_cast<double>(partial[0]);
}

double fold_row(Fold fold, const float* x, int64_t count) {
  const auto add = [](double a, double b) { return a + b; };
  constexpr float kInfinity = __builtin_inff();
  switch (fold) {
    case Fold::sum:
      return fold_row_by(x, count, 0.0, [](double a, float v) { return fold_add(a, v); }, add);
    case Fold::sum_abs:
      return fold_row_by(x, count, 0.0, [](double a, float v) { return fold_add_abs(a, v); }, add);
    case Fold::sum_square:
      return fold_row_by(
          x, count, 0.0, [](double a, float v) { return fold_add_square(a, v); }, add);
    case Fold::max:
      return fold_row_by(x, count, -kInfinity, fold_max<float>, fold_max<float>);
    case Fold::min:
      return fold_row_by(x, count, kInfinity, fold_min<float>, fold_min<float>);
  }
  return 0;
}

template <class F>
inline __attribute__((always_inline)) void fold_columns_by(const float* x, double* to,
                                                           int64_t count, F&& fold) {
  for (int64_t i = 0; i < count; ++i) to[i] = fold(to[i], x[i]);
}

void fold_columns(Fold fold, const float* x, double* to, int64_t count) {
  switch (fold) {
    case Fold::sum:
      return fold_columns_by(x, to, count, [](double a, float v) { return fold_add(a, v); });
    case Fold::sum_abs:
      return fold_columns_by(x, to, count, [](double a, float v) { return fold_add_abs(a, v); });
    case Fold::sum_square:
      return fold_columns_by(x, to, count, [](double a, float v) { return fold_add_square(a, v); });
    case Fold::max:
      return fold_columns_by(x, to, count,
                             [](double a, float v) { return fold_max<double>(a, v); });
    case Fold::min:
      return fold_columns_by(x, to, count,
                             [](double a, float v) { return fold_min<double>(a, v); });
  }
}

constexpr ReduceOps kReduceOps{fold_row, fold_columns};

}  // namespace
}  // namespace lathe::cpu
