// SPDX-License-Identifier: MIT
// Linear attention, token by token, with a state S [keys, values] per head:
//   S ← f · S;  S ← S + k ⊗ (v, or β · (v - Sᵀk));  o = scale · Sᵀq
// Columns of a state are independent: each task takes a strip of them, which stays in L1 for all
// tokens of a sequence. Sums over keys have two accumulators, for even and odd keys in ascending
// order. So results depend on neither the strip nor the number of tokens.
#pragma once

#include <cstdint>
#include <span>

#include "targets/cpu/kernels/simd/isa.h"

namespace lathe {
class ThreadPool;
}

namespace lathe::cpu {

struct LinearAttentionProblem {
  bool gated = false;   // f from `decay`, else 1
  bool delta = false;   // uses β and subtracts Sᵀk
  int64_t outputs = 1;  // output heads
  int64_t states = 1;   // value heads; each serves outputs / states output heads
  int64_t query_heads = 1;
  int64_t key_heads = 1;
  int64_t keys = 0;           // of a head
  int64_t values = 0;         // of a head
  bool decay_by_key = false;  // decay [states · keys] of a token, else [states]
  bool one_beta = false;      // beta [1] of a token, else [states]
  float scale = 1;
};

// Tokens of one sequence, f32; a token's elements are contiguous, strides are between tokens.
struct LinearAttentionRows {
  int64_t tokens = 0;
  const float* q = nullptr;
  int64_t q_stride = 0;
  const float* k = nullptr;
  int64_t k_stride = 0;
  const float* v = nullptr;
  int64_t v_stride = 0;
  const float* decay = nullptr;  // log f
  int64_t decay_stride = 0;
  const float* beta = nullptr;
  int64_t beta_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  const float* past = nullptr;  // [states, keys, values]; null: zeros
  float* present = nullptr;     // [states, keys, values]; must not overlap `past`
};

void run_linear_attention(const LinearAttentionProblem& problem,
                          std::span<const LinearAttentionRows> sequences, Isa isa,
                          ThreadPool* pool);

}  // namespace lathe::cpu
