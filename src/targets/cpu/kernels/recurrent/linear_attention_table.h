// SPDX-License-Identifier: MIT
// What an instruction set gives to linear attention.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// One token and a strip of a state's columns.
struct LinearToken {
  int64_t keys = 0;
  int64_t columns = 0;          // at most the kernels'
  const float* from = nullptr;  // the state before
  int64_t from_pitch = 0;       // between keys
  float* to = nullptr;          // and after; may be the same
  int64_t to_pitch = 0;
  const float* factors = nullptr;  // f of each key
  const float* faded = nullptr;    // f · k of each key; null: the state is not asked
  const float* k = nullptr;
  const float* v = nullptr;
  float beta = 1;
  float scale = 1;
  // Results that read the state: q and y of the first, and distances to the next ones.
  int64_t outputs = 1;
  const float* q = nullptr;
  int64_t q_pitch = 0;
  float* y = nullptr;
  int64_t y_pitch = 0;
};

struct LinearAttentionKernels {
  int64_t columns;  // of a strip
  void (*token)(const LinearToken& x);
};

extern const LinearAttentionKernels kLinearAttentionAvx2;
extern const LinearAttentionKernels kLinearAttentionAvx512;

}  // namespace lathe::cpu
