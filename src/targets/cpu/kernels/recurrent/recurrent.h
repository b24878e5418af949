// SPDX-License-Identifier: MIT
// LSTM, GRU and simple recurrent layers over time. One GEMM multiplies the input for many steps.
// Each step multiplies the state by packed weights and applies the gates to the accumulators in L1.
// Accumulators add in ascending order of k, so results depend on neither batch nor threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "targets/cpu/kernels/simd/isa.h"
#include "tensor/element_type.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

struct RecurrentKernels;
struct RecurrentPacked;

enum class RecurrentCell : uint8_t { rnn, gru, lstm };

// Gates in the order of ONNX: i, o, f, c of an LSTM; z, r, h of a GRU.
struct RecurrentProblem {
  RecurrentCell cell = RecurrentCell::lstm;
  ElementType element = ElementType::f32;
  int64_t input = 0;
  int64_t hidden = 0;
  std::vector<bool> backward = {false};  // per direction
  bool linear_before_reset = false;      // GRU
  bool input_forget = false;             // LSTM
  float clip = 0;                        // 0: none
  std::vector<std::string> activations;  // ONNX names in any case; empty: the defaults
};

// f32, dense; gates times hidden rows. Null if absent.
struct RecurrentWeights {
  const float* w = nullptr;          // [directions, gates · hidden, input]
  const float* r = nullptr;          // [directions, gates · hidden, hidden]
  const float* b = nullptr;          // [directions, 2 · gates · hidden]
  const float* peepholes = nullptr;  // [directions, 3 · hidden], i, o, f
};

// x is [time, batch, input]. Rows are contiguous; strides in elements.
struct RecurrentArguments {
  int64_t time = 0;
  int64_t batch = 0;
  const float* x = nullptr;
  int64_t x_time = 0;
  int64_t x_batch = 0;
  float* y = nullptr;  // [time, directions, batch, hidden]; null: not computed
  int64_t y_time = 0;
  int64_t y_direction = 0;
  int64_t y_batch = 0;
  const int32_t* lengths = nullptr;  // per batch row: after it, y is 0 and the state stays
  // [directions, batch, hidden]. Null: zeros for initial_*, not stored for last_*.
  const float* initial_h = nullptr;
  const float* initial_c = nullptr;
  float* last_h = nullptr;
  float* last_c = nullptr;
  int64_t state_direction = 0;
  int64_t state_batch = 0;
};

class Recurrent {
 public:
  // Reason why these kernels do not support the problem; empty if they do.
  static std::string refuse(const RecurrentProblem& problem);
  static int64_t gates(RecurrentCell cell);
  // Packs the weights. `refuse` must return an empty string.
  Recurrent(const RecurrentProblem& problem, const RecurrentWeights& weights, Isa isa);
  ~Recurrent();

  const RecurrentProblem& problem() const { return problem_; }
  void run(const RecurrentArguments& arguments, ThreadPool* pool) const;

 private:
  RecurrentProblem problem_;
  const RecurrentKernels* kernels_;
  std::vector<std::unique_ptr<RecurrentPacked>> packed_;  // per direction
};

}  // namespace lathe::cpu
