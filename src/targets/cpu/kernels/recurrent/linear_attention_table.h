// SPDX-License-Identifier: MIT
// Linear attention kernels of an instruction set.
#pragma once

#include <cstdint>

namespace lathe::cpu {

// One token and a strip of a state's columns.
struct LinearToken {
  int64_t keys = 0;
  int64_t columns = 0;          // at most the kernels'
  const float* from = nullptr;  // state before the token
  int64_t from_pitch = 0;       // between keys
  float* to = nullptr;          // state after the token; may equal `from`
  int64_t to_pitch = 0;
  const float* factors = nullptr;  // f of each key
  const float* decayed = nullptr;  // f · k of each key; null: no delta rule
  const float* k = nullptr;
  const float* v = nullptr;
  float beta = 1;
  float scale = 1;
  // Output heads that read the state: q and y of the first one, and the distances between them.
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
