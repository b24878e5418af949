// SPDX-License-Identifier: MIT
// Kernels of recurrent_*.cpp.
#pragma once

#include "targets/cpu/kernels/recurrent/recurrent_table.h"
#include "targets/cpu/kernels/simd/simd.h"

namespace lathe::cpu {
namespace {

constexpr int kMaxRows = kRegisters == 32 ? 6 : 3;

// acc[row][v] = Σ_k a[row][k] · b[k][v], in ascending order of k. One pointer addresses three rows
// and moves every four steps: pointer additions compete with FMAs for ports.
template <int kRows, int kV>
inline __attribute__((always_inline)) void sum_panel(const float* a, int64_t pitch, const float* b,
                                                     int64_t depth, F32 (&acc)[kRows][kV]) {
  constexpr int kPointers = (kRows + 2) / 3;
  const float* row[kPointers];
#pragma GCC unroll 2
  for (int i = 0; i < kPointers; ++i) row[i] = a + 3 * i * pitch;
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v) acc[r][v] = zero_f32();
  }
  const auto step = [&](int64_t k) __attribute__((always_inline)) {
    F32 x[kV];
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v) x[v] = load(b + (k * kV + v) * kLanes);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const F32 y = set1(row[r / 3][r % 3 * pitch + k]);
#pragma GCC unroll 8
      for (int v = 0; v < kV; ++v) acc[r][v] = fma(y, x[v], acc[r][v]);
    }
    __asm__ volatile("" ::: "memory");  // keeps loads in their step: no register is free
  };
  const auto advance = [&](int64_t by) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int i = 0; i < kPointers; ++i) {
      row[i] += by;
      __asm__("" : "+r"(row[i]));  // a pointer per row would spill
    }
    b += by * kV * kLanes;
  };
  for (int64_t n = depth / 4; n > 0; --n, advance(4)) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < 4; ++k) step(k);
  }
  for (int64_t n = depth % 4; n > 0; --n, advance(1)) step(0);
}

template <int kV, int kRows = kMaxRows>
void gemm_panels(const float* a, int64_t a_pitch, int64_t rows, const float* packed, int64_t depth,
                 const float* bias, float* y, int64_t y_pitch) {
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    F32 acc[kRows][kV];
    sum_panel<kRows, kV>(a + row * a_pitch, a_pitch, packed, depth, acc);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < kV; ++v) {
        store(y + (row + r) * y_pitch + v * kLanes, acc[r][v] + load(bias + v * kLanes));
      }
    }
  }
  if constexpr (kRows > 1) {
    gemm_panels<kV, (kRows > 3 ? 3 : 1)>(a + row * a_pitch, a_pitch, rows - row, packed, depth,
                                         bias, y + row * y_pitch, y_pitch);
  }
}

void gemm(const float* a, int64_t a_pitch, int64_t rows, const float* packed, int64_t depth,
          int vectors, const float* bias, float* y, int64_t y_pitch) {
  switch (vectors) {
    case 2:
      return gemm_panels<2>(a, a_pitch, rows, packed, depth, bias, y, y_pitch);
    case 3:
      return gemm_panels<3>(a, a_pitch, rows, packed, depth, bias, y, y_pitch);
    default:
      return gemm_panels<4>(a, a_pitch, rows, packed, depth, bias, y, y_pitch);
  }
}

inline F32 clipped(const RecurrentStep& s, F32 x) {
  if (s.clip <= 0) return x;
  return max(set1(-s.clip), min(set1(s.clip), x));
}

// Stores the new values if the step is within the row's length.
inline void put(const RecurrentStep& s, int64_t row, float* to, const float* from, F32 value) {
  store(to, s.is_live(row) ? value : load(from));
}

inline void finish_lstm(const RecurrentStep& s, int64_t row, int64_t unit, const F32* sum) {
  const int64_t at = row * s.pitch + unit;
  const F32 before = load(s.c + at);
  const auto with_peephole = [&](int64_t gate, F32 x, F32 c) {
    return s.peepholes == nullptr ? x : fma(load(s.peepholes + gate * s.pitch + unit), c, x);
  };
  const F32 i = sigmoid(clipped(s, with_peephole(0, sum[0], before)));
  const F32 f =
      s.input_forget ? set1(1.0F) - i : sigmoid(clipped(s, with_peephole(2, sum[2], before)));
  const F32 c = fma(f, before, i * tanh(clipped(s, sum[3])));
  const F32 o = sigmoid(clipped(s, with_peephole(1, sum[1], c)));
  put(s, row, s.next + at, s.h + at, o * tanh(c));
  put(s, row, s.c + at, s.c + at, c);
}

inline void finish_gru(const RecurrentStep& s, int64_t row, int64_t at, F32 z, F32 hidden) {
  const F32 h = load(s.h + at);
  put(s, row, s.next + at, s.h + at, fma(z, h, (set1(1.0F) - z) * tanh(clipped(s, hidden))));
}

// Applies the gates to the accumulators of a panel.
template <RecurrentStage kStage>
inline void finish(const RecurrentStep& s, int64_t row, int64_t panel, const F32* acc) {
  constexpr int kV = recurrent_vectors(kStage);
  const float* x = s.x + row * s.x_pitch + panel * kV * kLanes;
  const int64_t unit = panel * recurrent_unit_vectors(kStage) * kLanes;
  const int64_t at = row * s.pitch + unit;
  F32 sum[kV];
#pragma GCC unroll 4
  for (int v = 0; v < kV; ++v) sum[v] = acc[v] + load(x + v * kLanes);
  if constexpr (kStage == RecurrentStage::lstm) {
    finish_lstm(s, row, unit, sum);
  } else if constexpr (kStage == RecurrentStage::gru) {
    const F32 r = sigmoid(clipped(s, sum[1]));
    const F32 recurrent = acc[2] + load(s.bias + unit);
    finish_gru(s, row, at, sigmoid(clipped(s, sum[0])), fma(r, recurrent, load(x + 2 * kLanes)));
  } else if constexpr (kStage == RecurrentStage::gru_gates) {
    store(s.gate + at, sigmoid(clipped(s, sum[0])));
    store(s.reset + at, sigmoid(clipped(s, sum[1])) * load(s.h + at));
  } else {
    for (int v = 0; v < kV; ++v) {
      const int64_t here = at + v * kLanes;
      if constexpr (kStage == RecurrentStage::gru_hidden) {
        finish_gru(s, row, here, load(s.gate + here), sum[v]);
      } else {
        put(s, row, s.next + here, s.h + here, tanh(clipped(s, sum[v])));
      }
    }
  }
}

template <RecurrentStage kStage, int kRows>
inline void rows_of_panel(const RecurrentStep& s, int64_t row, int64_t panel) {
  constexpr int kV = recurrent_vectors(kStage);
  F32 acc[kRows][kV];
  sum_panel<kRows, kV>(s.multiplied + row * s.pitch, s.pitch,
                       s.weights + panel * s.depth * kV * kLanes, s.depth, acc);
  F32 sums[kRows * kV];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) sums[r * kV + v] = acc[r][v];
  }
  for (int r = 0; r < kRows; ++r) finish<kStage>(s, row + r, panel, sums + r * kV);
}

// One row times two panels: more accumulators hide the FMA latency.
template <RecurrentStage kStage>
inline void row_of_two(const RecurrentStep& s, int64_t row, int64_t panel) {
  constexpr int kV = recurrent_vectors(kStage);
  const float* a = s.multiplied + row * s.pitch;
  const float* b = s.weights + panel * s.depth * kV * kLanes;
  const float* c = b + s.depth * kV * kLanes;
  F32 acc[2 * kV];
#pragma GCC unroll 8
  for (int v = 0; v < 2 * kV; ++v) acc[v] = zero_f32();
#pragma GCC unroll 2
  for (int64_t k = 0; k < s.depth; ++k, b += kV * kLanes, c += kV * kLanes) {
    const F32 y = set1(a[k]);
#pragma GCC unroll 4
    for (int v = 0; v < kV; ++v) {
      acc[v] = fma(y, load(b + v * kLanes), acc[v]);
      acc[kV + v] = fma(y, load(c + v * kLanes), acc[kV + v]);
    }
  }
  finish<kStage>(s, row, panel, acc);
  finish<kStage>(s, row, panel + 1, acc + kV);
}

template <RecurrentStage kStage>
void run_stage(const RecurrentStep& s) {
  const int64_t width = s.batch == 1 ? 2 : 1;  // panels at a time
  const int64_t count = (s.last - s.first) / width;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t panel = s.first + (s.descending ? count - 1 - i : i) * width;
    if (s.batch == 1) {
      row_of_two<kStage>(s, 0, panel);
      continue;
    }
    int64_t row = 0;
    for (; row + kMaxRows <= s.batch; row += kMaxRows) {
      rows_of_panel<kStage, kMaxRows>(s, row, panel);
    }
    for (; row < s.batch; ++row) rows_of_panel<kStage, 1>(s, row, panel);
  }
  if (count * width < s.last - s.first) rows_of_panel<kStage, 1>(s, 0, s.last - 1);
}

void run_step(const RecurrentStep& s) {
  switch (s.stage) {
    case RecurrentStage::rnn:
      return run_stage<RecurrentStage::rnn>(s);
    case RecurrentStage::lstm:
      return run_stage<RecurrentStage::lstm>(s);
    case RecurrentStage::gru:
      return run_stage<RecurrentStage::gru>(s);
    case RecurrentStage::gru_gates:
      return run_stage<RecurrentStage::gru_gates>(s);
    case RecurrentStage::gru_hidden:
      return run_stage<RecurrentStage::gru_hidden>(s);
  }
}

constexpr RecurrentKernels kRecurrentKernels{kLanes, gemm, run_step};

}  // namespace
}  // namespace lathe::cpu
