// SPDX-License-Identifier: MIT
// Packed weights of one direction of a recurrent layer.
#pragma once

#include <memory>
#include <new>
#include <vector>

#include "targets/cpu/kernels/recurrent/recurrent.h"
#include "targets/cpu/kernels/recurrent/recurrent_table.h"

namespace lathe::cpu {

struct AlignedFree {
  std::align_val_t alignment{64};
  void operator()(float* p) const;
};
using AlignedFloats = std::unique_ptr<float, AlignedFree>;
AlignedFloats aligned_floats(int64_t count);  // aligned to 64, zeros; large arrays use large pages

// Weights of one stage of a step, in panels of [k][vectors][lanes].
struct PackedStage {
  RecurrentStage stage = RecurrentStage::lstm;
  std::vector<int64_t> gates;  // of the panel's vectors; or one gate with several vectors of units
  int64_t panels = 0;
  int64_t columns = 0;  // of all panels
  AlignedFloats w;      // input weights
  AlignedFloats r;      // recurrent weights
  AlignedFloats bias;   // [columns], added to the input GEMM
};

struct RecurrentPacked {
  RecurrentPacked(const RecurrentProblem& problem, const RecurrentWeights& weights,
                  int64_t direction, int lanes);

  std::vector<PackedStage> stages;
  int64_t pitch = 0;          // of rows of hidden units
  AlignedFloats hidden_bias;  // of a GRU's h, inside the reset
  AlignedFloats peepholes;    // [3][pitch]; null: none
};

}  // namespace lathe::cpu
