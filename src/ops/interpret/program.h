// SPDX-License-Identifier: MIT
// A compiled expression: steps over registers, each of which holds a chunk of elements.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/interpret.h"
#include "ops/interpret/kernels.h"

namespace lathe {

struct CompiledExpr::Program {
  // Input of a step: a register, or a constant (~index).
  using Input = int32_t;
  static constexpr Input kUnused = INT32_MAX;

  struct Step {
    interpret::Kernel kernel = nullptr;  // null: loads operand `argument`
    int32_t argument = -1;
    int32_t out = 0;  // register
    Input inputs[3] = {kUnused, kUnused, kUnused};
  };
  // Registers are contiguous, each `bytes` per element.
  struct Register {
    int32_t offset = 0;  // times elements per chunk
    int32_t bytes = 0;
  };

  std::vector<Step> steps;  // the last one computes the result
  std::vector<Register> registers;
  std::vector<uint64_t> constants;
  std::vector<ExprType> argument_types;  // by argument index; includes unused ones
  std::vector<bool> argument_used;
  ExprType type = ExprType::f32;
  int32_t bytes_per_element = 0;
};

}  // namespace lathe
