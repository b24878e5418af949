// SPDX-License-Identifier: MIT
// What follows a quantised convolution in a region: its result dequantised, a dequantised residual
// added, and the sum quantised.
#pragma once

#include <string>
#include <vector>

#include "targets/cpu/kernels/gemm/epilogue.h"
#include "targets/cpu/operands.h"

namespace lathe::cpu {

// True for results that an epilogue may dequantise again.
bool is_byte_anchor(const Instruction& anchor);

// Reason why `next`, which reads the region's value as `operand`, is no step of it; empty if it is.
// `region`: null if the instructions are in none yet.
std::string why_no_requantisation(const Instruction& anchor, const Instruction& next, int operand,
                                  const Instruction* region);
// True if the instruction of a body only dequantises the other operand of a step.
bool is_dequantised_side(const Instruction& instruction);

struct RequantisedStep {
  EpilogueStep step;
  const Value* residual = nullptr;  // the parameter of the body that the step reads; null: none
};
struct RequantisedSteps {
  std::vector<RequantisedStep> steps;
  float out_zero = 0;
};
// The steps behind the anchor's own scale.
RequantisedSteps requantised_steps(const Module& body, const Instruction& anchor,
                                   Constants constants);

}  // namespace lathe::cpu
