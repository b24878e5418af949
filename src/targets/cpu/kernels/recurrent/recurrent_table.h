// SPDX-License-Identifier: MIT
// Recurrent kernels of an instruction set. Weights are packed in panels [k][vectors of columns].
// The columns are several gates of one vector of hidden units, or one gate of four vectors of
// units.
#pragma once

#include <cstdint>

namespace lathe::cpu {

enum class RecurrentStage : uint8_t {
  rnn,         // 1 gate of 4 vectors of units
  lstm,        // 4 gates
  gru,         // 3 gates, linear before reset
  gru_gates,   // z and r; stores r · h
  gru_hidden,  // h of 4 vectors of units, from r · h
};

// Panels [first, last) of one step, all batch rows. Rows of units are `pitch` floats apart, in full
// panels. `x` is the input GEMM's result, [batch][panel][vectors][lanes].
struct RecurrentStep {
  RecurrentStage stage = RecurrentStage::lstm;
  int64_t first = 0;
  int64_t last = 0;
  int64_t batch = 0;
  int64_t depth = 0;  // units of the left operand
  int64_t pitch = 0;
  const float* weights = nullptr;
  const float* x = nullptr;
  int64_t x_pitch = 0;
  const float* h = nullptr;           // state before the step
  const float* multiplied = nullptr;  // h, or r · h
  float* c = nullptr;                 // updated in place
  float* next = nullptr;              // h after the step
  float* gate = nullptr;              // z, of a GRU in two stages
  float* reset = nullptr;             // r · h, of a GRU in two stages
  const float* bias = nullptr;        // recurrent bias of a GRU's h: [units]
  const float* peepholes = nullptr;   // [3][units]: i, o, f
  int64_t time = 0;
  const int32_t* lengths = nullptr;  // per batch row: number of valid steps; null: all
  float clip = 0;
  bool input_forget = false;
  bool descending = false;  // starts with the last panels, which are still cached

  bool is_live(int64_t row) const { return lengths == nullptr || time < lengths[row]; }
};

struct RecurrentKernels {
  int lanes;
  // y[row][vectors · lanes] = bias + Σ_k a[row][k] · packed[k]; rows of y are `y_pitch` apart.
  void (*gemm)(const float* a, int64_t a_pitch, int64_t rows, const float* packed, int64_t depth,
               int vectors, const float* bias, float* y, int64_t y_pitch);
  void (*step)(const RecurrentStep& step);
};

const RecurrentKernels& recurrent_avx2();
const RecurrentKernels& recurrent_avx512();

inline constexpr int recurrent_vectors(RecurrentStage stage) {
  return stage == RecurrentStage::gru ? 3 : stage == RecurrentStage::gru_gates ? 2 : 4;
}
// Vectors of hidden units in a panel.
inline constexpr int recurrent_unit_vectors(RecurrentStage stage) {
  return stage == RecurrentStage::rnn || stage == RecurrentStage::gru_hidden ? 4 : 1;
}

}  // namespace lathe::cpu
